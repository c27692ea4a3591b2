"""The Java on this host: found, checked, and started with closed doors and within a limit of memory."""
