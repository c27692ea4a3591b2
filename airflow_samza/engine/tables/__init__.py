"""Tables of a task that side inputs feed: read, kept on hosts, followed, looked up; and versions that are compacted."""
