"""Serdes, which convert a message's columns into the bytes that a system sends, and back."""
