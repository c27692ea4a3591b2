"""Spark's Python worker daemon with our imports done once, before it forks: each worker then starts warm.

Spark starts it by name (``spark.python.daemon.module``).
"""

from __future__ import annotations

import importlib
import os

# Loaded before the fork. Each costs every worker 0.1–1 s when it has to load it by itself. Nobody here uses pandas, but
# pyarrow loads it at the first conversion of a Python list.
PRELOADED = (
    "pandas",
    "pyarrow",
    "pyarrow.acero",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.ipc",
    "pyarrow.parquet",
    "sqlglot.dialects.spark",
    "pyspark.worker",
    "airflow_samza.spark.epoch_task",
    "airflow_samza.systems.files.parquet",
    "airflow_samza.systems.log_system",
)


def preload() -> None:
    """Imports what the workers need; one that fails to load here fails again, with its own words, in the worker."""
    for name in PRELOADED:
        try:
            importlib.import_module(name)
        except ImportError:
            continue


if __name__ == "__main__":
    # Arrow's own threads would compete with Spark's: a task runs on one core. Read before pyarrow makes its pool.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    preload()
    from pyspark import daemon

    daemon.manager()
