"""A Kubernetes of one node on this machine, for tasks of Airflow, drivers and executors of Spark in real pods."""
