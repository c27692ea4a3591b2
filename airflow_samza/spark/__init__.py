"""Whatever needs pyspark: sessions, epochs, pushes, Catalyst, the data source."""
