"""The sensors of this provider."""
