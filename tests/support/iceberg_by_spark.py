"""Iceberg tables by Spark 4.1 with Iceberg's own connector, in an environment of its own: there is none for Spark 4.2.

``python -m tests.support.iceberg_by_spark publish FOLDER`` publishes epochs twice. It prints, as JSON by the name of the
output, the numbers in its table, how many snapshots this has, and whether its plan promises exactly once.

``python -m tests.support.iceberg_by_spark serve FOLDER`` answers statements of SQL. A line is a statement as JSON, and
the answer a line behind ``ANSWER``; the embedded catalog in the folder is ``default``, as its tables name it themselves.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import site
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from demo.java_servers import jars
from demo.store_servers import installed
from tests.support.second_environment import add_paths

SPARK = "4.1.3"
ANSWER = "answer: "

_MAKE = (
    f"{sys.executable} -m venv . && "
    f"bin/pip install --quiet --disable-pip-version-check --no-deps pyspark=={SPARK} "
    f"pyspark-client=={SPARK} py4j==0.10.9.9"
)


def published_twice(folder: Path) -> dict[str, Any]:
    """Return what this module prints of epochs that Spark 4.1 publishes twice."""
    done = subprocess.run(**_process("publish", folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class SparkOfIceberg:
    """A Spark 4.1 that answers statements of SQL."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Return the rows of a statement."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        answer = next(line for line in self._process.stdout if line.startswith(ANSWER))
        found = pickle.loads(base64.b64decode(answer.removeprefix(ANSWER)))
        if isinstance(found, str):
            raise RuntimeError(f"{statement}\n{found}")
        rows: list[dict[str, Any]] = found
        return rows


@contextmanager
def spark_of_iceberg(folder: Path) -> Iterator[SparkOfIceberg]:
    """Start a Spark 4.1 over the tables of the embedded catalog in a folder."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(**_process("serve", folder), **pipes) as process:
        yield SparkOfIceberg(process)
        assert process.stdin is not None
        process.stdin.close()


def _process(act: str, folder: Path) -> dict[str, Any]:
    """Return the command of this module, where it runs, and its environment: Spark's workers are of it, too."""
    python = installed("spark-4.1", "bin/python", ["sh", "-c", _MAKE])
    add_paths(python.parents[1], site.getsitepackages())
    kept = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "SPARK_SUBMIT_OPTS")}
    environment = {**kept, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python), "TZ": "UTC"}
    command = [str(python), "-m", "tests.support.iceberg_by_spark", act, str(folder)]
    return {"args": command, "cwd": Path(__file__).parents[2], "env": environment}


def _conf(folder: Path, name: str, catalog: Mapping[str, str]) -> dict[str, str]:
    return {
        "spark.jars": ",".join(str(jar) for jar in jars("iceberg").glob("*.jar")),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{name}": "org.apache.iceberg.spark.SparkCatalog",
        **{f"spark.sql.catalog.{name}.{key}": text for key, text in catalog.items()},
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }


def publish(folder: Path) -> None:
    """Publish to each of the outputs, and print what is in their tables."""
    from airflow_samza.spark.sessions.classic_session import ClassicSession
    from tests.spark.conftest import APPS
    from tests.spark.test_delivery import COLUMNS, Output, Publishing

    sys.path.insert(0, str(APPS))
    conf = _conf(folder, "lake", {"type": "hadoop", "warehouse": str(folder / "lake")})
    session = ClassicSession("iceberg", "local[2]", conf)
    try:
        spark = session._session
        spark.sql(f"CREATE TABLE lake.web.there ({COLUMNS}) USING iceberg PARTITIONED BY (day)")
        found = {}
        for name, output in {
            "a table that is there": Output(False, 0, table="lake.web.there"),
            "a table that Spark makes": Output(False, 0, "iceberg", table="lake.web.made"),
            "a table that is replaced": Output(True, 0, "iceberg", "overwrite", "lake.web.replaced"),
        }.items():
            publishing = Publishing(session, folder / name)
            system, spec = publishing.system(output), publishing.stream(output)
            publishing.publish_twice(system, spec)
            snapshots = spark.newSession().table(f"{output.table}.snapshots").count()
            claims = system.delivery(spec).exactly_once
            found[name] = [publishing.written(system, spec), snapshots, claims]
        print(json.dumps(found))
    finally:
        session.stop()


def serve(folder: Path) -> None:
    """Answer statements until there are no more."""
    from airflow_samza.spark.sessions.classic_session import ClassicSession

    catalog = {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{folder}/catalog.db",
        "warehouse": f"file://{folder}",
        "jdbc.schema-version": "V1",
        "cache-enabled": "false",  # others commit to the tables, too
    }
    conf = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"}
    session = ClassicSession("iceberg", "local[2]", {**_conf(folder, "default", catalog), **conf})
    try:
        for line in sys.stdin:
            try:
                rows = session._session.sql(json.loads(line)).collect()
                found: Any = [_in_utc(row.asDict(recursive=True)) for row in rows]
            except Exception as error:  # the statement's own, which who has sent it is to see
                found = str(error)[:4000]
            print(ANSWER + base64.b64encode(pickle.dumps(found)).decode(), flush=True)
    finally:
        session.stop()


def _in_utc(value: Any) -> Any:
    """Return a value whose times have a zone: Spark's are those of the process."""
    if isinstance(value, dict):
        return {key: _in_utc(one) for key, one in value.items()}
    return value.replace(tzinfo=timezone.utc) if isinstance(value, datetime) else value


if __name__ == "__main__":
    {"publish": publish, "serve": serve}[sys.argv[1]](Path(sys.argv[2]))
