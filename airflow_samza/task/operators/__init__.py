"""The operators of a task over Arrow batches: each takes a batch and gives batches.

Routing and ends are up to the task instance.
"""
