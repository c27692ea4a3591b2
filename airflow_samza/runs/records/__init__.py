"""Durable records of a run, and where they lie."""
