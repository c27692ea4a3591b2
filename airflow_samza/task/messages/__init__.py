"""Conversion between Arrow batches and the messages that callables take and return."""
