"""Applications of the Spark tests, in a folder that is on nobody's path but the submitting process's."""
