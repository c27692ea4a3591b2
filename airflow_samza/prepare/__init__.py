"""The plan step of a run: everything that can be known, decided or rejected before a stage runs. No pyspark."""
