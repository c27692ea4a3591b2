"""Windows: which windows a message is in, the open windows of a task, and the operator that closes them."""
