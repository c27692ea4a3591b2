"""The settings of an Airflow on this machine, as environment variables: a home of its own, and patience."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path


def airflow_settings(home: Path, dags: Path | Mapping[str, Path], port: int, parallelism: int) -> dict[str, str]:
    """Return the whole environment of an ``airflow standalone`` at a port of 127.0.0.1.

    ``dags`` is one folder, or several by the names of their bundles.
    """
    folders = dags if isinstance(dags, Mapping) else {"dags": dags}
    url = f"http://127.0.0.1:{port}"
    return {
        **_clean_environment(),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        # An error of the database is in the answer: "database is locked", say.
        "AIRFLOW__API__EXPOSE_STACKTRACE": "True",
        "AIRFLOW__CORE__DAGS_FOLDER": str(next(iter(folders.values())).resolve()),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": str(parallelism),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        # Writers of SQLite wait for each other this long instead of giving up after 5 s.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db?timeout=60",
        # A machine that also runs Spark answers slowly now and then; Airflow's own patience (5, 30 and 50 s) is
        # meant for servers.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        # A task that cannot reach the API server tries for a minute, not five times within 15 s: the scheduler may be
        # up well before it.
        "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "15",
        "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "10",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "150",
        "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "180",
        # Several Airflows on one machine would fight over the fixed default ports of these two.
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        # Otherwise a task that was marked failed goes on for up to a heartbeat's usual interval.
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        **(_bundles(folders) if folders is dags else {}),
    }


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _bundles(folders: Mapping[str, Path]) -> dict[str, str]:
    found = [
        {
            "name": name,
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(folder.resolve()), "refresh_interval": 5},
        }
        for name, folder in folders.items()
    ]
    return {
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(found),
        # Each file is read once, not twice a minute.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    }


def _clean_environment() -> dict[str, str]:
    """Return this environment without what another Airflow left in it (a demo may be started from an Airflow shell)."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "_AIRFLOW_"))}
