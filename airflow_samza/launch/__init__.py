"""From a request to the process that serves it: the runtime, and how stage runners are started. No pyspark."""
