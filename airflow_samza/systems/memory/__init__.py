"""Topics in the memory of one process."""
