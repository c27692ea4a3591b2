"""The applications of the example Dags."""
