"""Streams and batches in one Airflow Dag."""
