"""The system ``delta``: Delta tables in folders, whose log the plan reads; tasks read files, without a library."""
