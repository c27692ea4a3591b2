"""Where a task keeps state: stores, snapshots, side inputs, checkpoints."""
