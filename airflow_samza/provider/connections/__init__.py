"""Airflow connections as systems, masters, and the access to roots."""
