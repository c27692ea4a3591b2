"""The hook of this provider, and the part of it that opens a root."""
