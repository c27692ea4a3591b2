"""The warm runner itself: a process that keeps a Spark and lends it to one run at a time."""
