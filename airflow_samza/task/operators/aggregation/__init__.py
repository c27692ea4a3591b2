"""Aggregation by key on whole batches: accumulators of each function, partial results, their sending and merging."""
