"""Tables as inputs: versions, input ranges, changes, and the rows of files."""
