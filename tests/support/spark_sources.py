"""Needs of a Spark session of tests that reads Avro, Hive tables, databases and Delta, and a database to read from.

The jars come from Maven (``scripts/setup-jars.sh sources``); Hive's metastore is a Derby in a folder, of which one
process at a time can have the lock.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from demo.java_servers import jars

if TYPE_CHECKING:
    from airflow_samza.spark.sessions.classic_session import ClassicSession

DRIVER = "org.h2.Driver"


def source_jars() -> list[str]:
    """Spark's Avro and the driver of the database."""
    return sorted(str(jar) for jar in jars("sources").glob("*.jar"))


def source_conf() -> dict[str, str]:
    """The Spark settings with which they are found."""
    return {"spark.jars": ",".join(source_jars())}


def end_java() -> None:
    """Ends the Java of this process, which other tests may have started: it knows the jars that it was started with."""
    from pyspark import SparkContext

    assert SparkContext._active_spark_context is None, "stop the session first"
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(300)
        SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def spark_with_delta(folder: Path) -> Iterator[ClassicSession]:
    """Start a Spark with Delta, whose Java is its own: jars are what a Java starts with."""
    from airflow_samza.spark.sessions.classic_session import ClassicSession

    end_java()
    conf = {
        "spark.jars": ",".join(sorted(str(jar) for jar in jars("delta").glob("*.jar"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    made = ClassicSession("deltas", "local[2]", conf)
    yield made
    made.stop()
    end_java()


def hive_conf(folder: Path) -> dict[str, str]:
    """The Spark settings of a Hive whose metastore and warehouse lie in a folder."""
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'metastore'};create=true",
    }


class Database:
    """An H2 server, a process of its own, whose databases lie in a folder."""

    user, password = "reader", "hush hush"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jar = next(jar for jar in source_jars() if Path(jar).name.startswith("h2-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        command = self._java(
            "org.h2.tools.Server", "-tcp", "-tcpPort", str(self._port), "-baseDir", str(folder), "-ifNotExists"
        )
        self._server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._await()

    @property
    def url(self) -> str:
        """The JDBC URL of its database."""
        return f"jdbc:h2:tcp://127.0.0.1:{self._port}/./members"

    def options(self, table: str) -> dict[str, str]:
        """Spark's options for reading a table, all but the password."""
        return {"url": self.url, "dbtable": table, "user": self.user, "driver": DRIVER}

    def run(self, sql: str) -> None:
        """Runs statements."""
        shell = self._java(
            "org.h2.tools.Shell", "-url", self.url, "-user", self.user, "-password", self.password, "-sql", sql
        )
        subprocess.run(shell, check=True, capture_output=True, text=True)

    def stop(self) -> None:
        """Ends the server."""
        self._server.kill()
        self._server.wait()

    def _java(self, program: str, *arguments: str) -> list[str]:
        java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java"
        return [java, "-Dh2.bindAddress=127.0.0.1", "-cp", self._jar, program, *arguments]

    def _await(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError:
                assert self._server.poll() is None, "the database did not start"
                time.sleep(0.05)
        raise TimeoutError("the database did not start")
