"""An installation on this machine, without containers: ``make stack`` starts it and prints how it is reached.

Airflow with CeleryExecutor over PostgreSQL and Redis, a standalone cluster of Spark, a Kafka broker, and an S3 store
for root and results: what ``docker/compose.yaml`` starts with ``docker/stack.env``. Everything listens on 127.0.0.1, on
ports that were free. The example Dags under ``dags/`` are there, paused; connections have the ids that they name.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TypeVar

from demo import command_script, flights_data
from demo.airflow_parts import AirflowInParts
from demo.databases import running_postgres, running_redis
from demo.java_servers import serve
from demo.kafka import Kafka
from demo.object_stores import CONNECTION, DemoStore, running_store
from demo.spark_cluster import StandaloneCluster, standalone_cluster

DAGS = Path(__file__).resolve().parents[1] / "dags"
SPARK = "spark_standalone"
"""The id of Airflow's connection to the cluster."""

WORKERS = 2
PARALLELISM = 4

Found = TypeVar("Found")


class Stack:
    """The servers in a folder, and Airflow over them; ``times`` has the seconds that each took to start."""

    name = "The stack"

    postgres: str
    redis: str
    spark: StandaloneCluster
    kafka: Kafka
    store: DemoStore
    airflow: AirflowInParts
    script: Path
    """It runs a command in this Airflow, and holds the passwords of the connections."""

    def __init__(self, folder: Path, *, dags: Path = DAGS) -> None:
        self.folder = folder
        self.times: dict[str, float] = {}
        self._dags = dags
        self._running = ExitStack()

    def start(self) -> None:
        """Starts them one after the other, and returns when Airflow is healthy."""
        for name in ("spark", "kafka", "t"):
            (self.folder / name).mkdir()
        flights_data.prepare(self.folder / "data")
        self.postgres = self._started("PostgreSQL", running_postgres(self.folder / "postgres"))
        self.redis = self._started("Redis", running_redis(self.folder / "redis"))
        self.store = self._started("the S3 store", running_store("s3", self.folder / "store"))
        self.spark = self._started("Spark", standalone_cluster(self.folder / "spark", workers=WORKERS))
        self.kafka = Kafka(self.folder / "kafka")
        self._running.callback(self.kafka.stop)
        self._timed("Kafka", self.kafka.start)
        airflow = AirflowInParts(
            self.folder / "airflow",
            dags=self._dags,
            database=self.postgres,
            broker=self.redis,
            env=self._settings(),
            connections=self.connections,
            parallelism=PARALLELISM,
        )
        self.airflow = self._started("Airflow", airflow)
        self.script = command_script.write_script(self.folder, self.airflow.environment)

    def stop(self) -> None:
        """Stops what was started, Airflow first."""
        self._running.close()

    def wait(self) -> None:
        """Returns when Kafka has ended, which nobody has asked for."""
        self.kafka.wait()

    @property
    def connections(self) -> dict[str, str]:
        """Airflow's connections by their ids, as JSON."""
        master, _, port = self.spark.master.rpartition(":")
        root = {"root": self.store.root, "root_conn_id": CONNECTION, "spark_conn_id": SPARK}
        own: dict[str, dict[str, object]] = {
            "samza_default": {"conn_type": "samza", "extra": root},
            SPARK: {"conn_type": "spark", "host": master, "port": int(port)},
            "flights_kafka": {"conn_type": "kafka", "extra": {"bootstrap.servers": self.kafka.address}},
            "flights_data": {"conn_type": "fs", "extra": {"path": str(self.folder / "data")}},
        }
        return {**self.store.connections, **{name: json.dumps(fields) for name, fields in own.items()}}

    def facts(self) -> str:
        """Return the addresses, the connections, and how commands reach this Airflow."""
        lines = {
            "Airflow": f"{self.airflow.url}   user {self.airflow.username}, password {self.airflow.password}",
            "PostgreSQL": self.postgres,
            "Redis": self.redis,
            "Spark": f"{self.spark.master}   ({len(self.spark.workers)} workers)",
            "Kafka": self.kafka.address,
            "S3": f"{self.store.place}   root {self.store.root}",
            "connections": ", ".join(sorted(self.connections)),
            "logs and data": str(self.folder),
        }
        run = shlex.quote(str(self.script))
        commands = [
            f"{sys.executable} -m demo.flights_topic {self.kafka.address}   # fills the topic of the Kafka Dags",
            f"{run} airflow dags unpause kafka_hourly",
            f"{run} bash   # a shell with airflow and airflow-samza of this Airflow",
        ]
        told = "\n".join(f"  {name:15} {value}" for name, value in lines.items())
        return f"{told}\n\n" + "\n".join(f"  {command}" for command in commands)

    def _settings(self) -> dict[str, str]:
        return {
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
            # Drivers and the workers of the cluster need one Python.
            "PYSPARK_PYTHON": sys.executable,
            # Runners and caches of this Airflow, apart from those that the user has.
            "TMPDIR": str(self.folder / "t"),
        }

    def _started(self, name: str, server: AbstractContextManager[Found]) -> Found:
        return self._timed(name, lambda: self._running.enter_context(server))

    def _timed(self, name: str, start: Callable[[], Found]) -> Found:
        began = time.monotonic()
        found = start()
        self.times[name] = time.monotonic() - began
        print(f"  {name:15} started in {self.times[name]:.1f} s", flush=True)
        return found


def main(arguments: list[str] | None = None) -> int:
    """Starts all of it, prints its addresses, and stops it at Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m demo.stack", description=__doc__.partition("\n")[0])
    return serve(parser, lambda folder, _: Stack(folder), arguments)


if __name__ == "__main__":
    sys.exit(main())
