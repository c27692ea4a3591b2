"""A Dag over ``cleared``, whose stage runners run tasks in their own process: what Airflow starts matters, not Spark."""

import os
from pathlib import Path

import pytest
from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup
from tests.support.runner_without_spark import use_instead

os.environ["AIRFLOW__SAMZA__WARM_RUNNERS"] = "0"
use_instead(pytest.MonkeyPatch(), Path(os.environ["SAMZA_TEST_SIGNALS"]) / "dials")

SYSTEMS = {"data": "flights_data", "warehouse": "flights_warehouse"}

with DAG("cleared", schedule=None):
    SamzaTaskGroup("cleared", application="cleared:cleared", systems=SYSTEMS, poll_interval=0.2)
