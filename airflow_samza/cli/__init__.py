"""The command line: ``airflow-samza plan | explain | run | topics | version``."""
