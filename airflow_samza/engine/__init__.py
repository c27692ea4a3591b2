"""Drives the stages of a run, epoch after epoch. No pyspark: what runs an epoch stands behind a port."""
