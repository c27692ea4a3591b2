"""The facts of every kind of operator in a task: its columns, their sources, the meaning of its state, its making."""
