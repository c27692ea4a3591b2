"""The run loop of a task: what it reads next, and what its operators do with it."""
