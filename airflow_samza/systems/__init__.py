"""Where streams live: the system protocols and the systems memory, log and files."""
