"""Sessions of Spark behind one interface: of this process, and of a Spark Connect server."""
