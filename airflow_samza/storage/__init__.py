"""Storage of a task's state: stores, snapshots, side inputs, checkpoints."""
