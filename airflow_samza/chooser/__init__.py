"""Which envelope is next: the message choosers. Pure: no I/O."""
