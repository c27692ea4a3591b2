"""The Airflow face: hook, operators, task group, provider information."""
