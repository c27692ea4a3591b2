"""A test driver.

A whole application, planned and run in memory in milliseconds, by the same task code that Spark runs.
"""

from airflow_samza.testing.driver import TestDriver as TestDriver
