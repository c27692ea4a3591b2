"""Topics of Kafka: bounded input ranges of partitions, read in the tasks, committed messages only."""
