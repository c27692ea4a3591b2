"""Systems, in which streams live: the protocols, and a folder for each kind of system."""
