"""The operators of message streams: what each call checks, and the operator spec that it adds to the graph."""
