"""The system ``iceberg``: tables of a catalog, which the plan asks; tasks read files, without pyiceberg."""
