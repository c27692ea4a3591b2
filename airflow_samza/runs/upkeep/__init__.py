"""Retention and checks of what lies under a root."""
