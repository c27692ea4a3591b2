"""The system ``delta``: Delta tables in folders, whose log is read and written here; tasks read and write files."""
