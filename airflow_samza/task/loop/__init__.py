"""The run loop of a task: it reads the inputs and pushes batches through the operators."""
