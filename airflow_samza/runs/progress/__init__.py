"""Progress of runs and their stages, and the readers of tables."""
