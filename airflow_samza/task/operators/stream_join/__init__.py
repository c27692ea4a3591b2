"""The join of two streams within a time to live: rows are buffered in sorted runs and meet when work is worth it."""
