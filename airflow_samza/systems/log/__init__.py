"""The log: topics as folders of immutable segment files and commit records."""
