"""Topics as Spark's data source reads them: its options, ranges of offsets as Arrow batches, and streams of them."""
