"""One Samza task over Arrow batches, with no Spark in it: operators, joins, aggregations, the run loop."""
