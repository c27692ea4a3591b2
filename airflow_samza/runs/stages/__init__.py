"""The state of stages and of the processes that run them, read from their records."""
