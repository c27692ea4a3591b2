"""The tables of a task: local ones, those that side inputs fill, and remote ones."""
