"""A module that the applications import, to be shipped with them."""

LONG_MS = 1000
