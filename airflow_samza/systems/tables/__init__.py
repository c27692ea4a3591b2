"""Parts that kinds of systems share whose streams are tables of data files: columns, files, commits, the consumer."""
