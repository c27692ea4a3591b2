"""An Airflow of separate processes over PostgreSQL, as an installation has them: each can be killed and started again.

    with running_postgres(place / "postgres") as database, AirflowInParts(
        place / "home", dags=Path("dags"), database=database
    ) as airflow:
        airflow.kill("scheduler")
        airflow.start_part("scheduler")

With a ``broker``, the URL of a Redis, it has two executors: LocalExecutor is the default one, and a worker of Celery
runs the tasks that say ``executor="CeleryExecutor"``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from demo.local_airflow import LocalAirflow, process_family

WORKER = "celery worker"


class AirflowInParts(LocalAirflow):
    """The processes of one Airflow by name: ``api-server``, ``scheduler``, ``triggerer`` and more."""

    def __init__(
        self,
        home: Path,
        *,
        dags: Path | Mapping[str, Path],
        database: str,
        broker: str | None = None,
        env: Mapping[str, str] | None = None,
        connections: Mapping[str, str] | None = None,
        parallelism: int = 8,
    ) -> None:
        settings = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database}
        if broker is not None:
            settings |= {
                "AIRFLOW__CORE__EXECUTOR": "LocalExecutor,CeleryExecutor",
                "AIRFLOW__CELERY__BROKER_URL": broker,
                "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database}",
                "AIRFLOW__CELERY__WORKER_CONCURRENCY": str(parallelism),
            }
        super().__init__(
            home, dags=dags, env={**settings, **(env or {})}, connections=connections, parallelism=parallelism
        )
        self._commands = {
            "api-server": ["api-server", "--port", str(self.port), "--host", "127.0.0.1"],
            "scheduler": ["scheduler", "--skip-serve-logs"],
            "dag-processor": ["dag-processor"],
            "triggerer": ["triggerer"],
            **({WORKER: ["celery", "worker", "--without-mingle", "--without-gossip"]} if broker else {}),
        }

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the processes."""
        return tuple(self._commands)

    def start_part(self, name: str) -> None:
        """Starts one process; does nothing where it runs."""
        running = self._processes.get(name)
        if running is None or running.poll() is not None:
            self._spawn(name, *self._commands[name])

    def kill(self, name: str) -> None:
        """Kills one process and the children of its session; stage runners have sessions of their own, and go on."""
        process = self._processes.pop(name)
        for member in process_family(process.pid):
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                if os.getsid(member.pid) == process.pid:
                    member.kill()
        process.wait()

    def _launch(self, timeout: float) -> None:
        self.cli("db", "migrate", timeout=timeout)
        for name in self._commands:
            self.start_part(name)
