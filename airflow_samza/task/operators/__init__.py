"""The operators of a task, which take an Arrow batch and give batches; the task instance routes and ends them."""
