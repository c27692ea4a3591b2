"""Warm runners as those see them who ask for one: which fits, where it lies, how one talks with it."""
