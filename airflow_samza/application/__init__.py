"""What a user writes: descriptors, message streams, operator specs, the low-level task API. Standard library only."""
