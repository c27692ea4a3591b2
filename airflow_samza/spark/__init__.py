"""A stage on Spark: sessions, epochs, Catalyst sections, the data source, the stage runner."""
