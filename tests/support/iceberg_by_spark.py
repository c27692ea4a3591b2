"""Epochs that are published twice to Iceberg tables by Spark 4.1: ``python -m tests.support.iceberg_by_spark FOLDER``.

Iceberg has no connector for Spark 4.2, so this runs in an environment of its own. It prints, as JSON by the name of the
output, the numbers in its table, how many snapshots this has, and whether its plan promises exactly once.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from pathlib import Path
from typing import Any

from demo.java_servers import jars
from demo.store_servers import installed
from tests.support.second_environment import add_paths

SPARK = "4.1.3"

_MAKE = (
    f"{sys.executable} -m venv . && "
    f"bin/pip install --quiet --disable-pip-version-check --no-deps pyspark=={SPARK} "
    f"pyspark-client=={SPARK} py4j==0.10.9.9"
)


def published_twice(folder: Path) -> dict[str, Any]:
    """Return what this module prints, run by Spark 4.1."""
    python = installed("spark-4.1", "bin/python", ["sh", "-c", _MAKE])
    add_paths(python.parents[1], site.getsitepackages())
    command = [str(python), "-m", "tests.support.iceberg_by_spark", str(folder)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], env=_environment(python), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _environment(python: Path) -> dict[str, str]:
    """Return the variables of a process in the environment: Spark's workers are its own, too."""
    kept = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "SPARK_SUBMIT_OPTS")}
    return {**kept, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}


def main(folder: Path) -> None:
    """Publish to each of the outputs, and print what is in their tables."""
    from airflow_samza.spark.sessions.classic_session import ClassicSession
    from tests.spark.conftest import APPS
    from tests.spark.test_delivery import COLUMNS, Output, Publishing

    sys.path.insert(0, str(APPS))
    conf = {
        "spark.jars": ",".join(str(jar) for jar in jars("iceberg").glob("*.jar")),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
