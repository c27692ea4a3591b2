"""The page in Airflow: a plugin, the HTTP interface behind it, and the files that a browser loads."""
