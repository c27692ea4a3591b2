"""The API of applications: descriptors, message streams, operators, low-level tasks. Standard library only."""
