"""Assets and OpenLineage: the names of data, the outlets of tasks, and what tasks read and write."""
