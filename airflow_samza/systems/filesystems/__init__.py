"""Filesystems that a root can lie on."""
