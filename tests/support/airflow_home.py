"""A home for Airflow outside the user's own; import this before anything that imports Airflow."""

from __future__ import annotations

import os
import sys
import tempfile

if "airflow" not in sys.modules:
    HOME = tempfile.TemporaryDirectory(prefix="airflow-home-")
    os.environ["AIRFLOW_HOME"] = HOME.name
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "False"
