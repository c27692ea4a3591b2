"""Systems, in which streams live: the protocols, and the systems log, memory, files and spark."""
