"""Between Arrow batches and the messages that callables take and give."""
