"""Declarations of streams and tables: what the calls on `app` check, and the descriptors that they make."""
