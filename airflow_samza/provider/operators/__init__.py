"""The operators of this provider."""
