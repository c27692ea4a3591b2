"""The small Spark whose classes an archive is made of: it does once what stages and pushes do.

``python -m airflow_samza.spark.class_training FILE [EXTRA_CLASS_PATH]``; Java writes FILE as it ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.launch.class_archive import EXTRA_CLASS_PATH
from airflow_samza.spark.sessions.session_start import start_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

FORMATS = ("parquet", "csv", "json")


def train(spark: SparkSession, folder: str) -> None:
    """Read, convert, repartition, sort, join and aggregate a few rows, and hand them to Python and back."""
    columns = "id bigint, name string, value double, day date"
    rows = spark.createDataFrame([(number, f"name {number % 7}", number / 2, None) for number in range(100)], columns)
    for kind in FORMATS:
        path = os.path.join(folder, kind)
        rows.write.format(kind).options(header="true").save(path)
        read = spark.read.format(kind).options(header="true", inferSchema="true").load(path)
        taken = read.selectExpr(
            "CAST(id AS int) AS id", "name", "coalesce(CAST(value AS double), 0) AS value", "id > 3 AS is_late"
        )
        placed = taken.repartition(2, "name").sortWithinPartitions("name", "id")
        placed.mapInArrow(_same, "id int, name string, value double, is_late boolean").where("NOT is_late").collect()
        taken.join(taken.groupBy("name").agg({"value": "max"}), "name").count()
    spark.range(0, 2, 1, 2).mapInArrow(_same, "id bigint").collect()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def main(arguments: Sequence[str]) -> int:
    """Run the process, which waits until Java has written the archive."""
    # so that all of it can be ended at once; in a session of its own it would not be as low in priority as its maker
    os.setpgrp()
    file, extra_class_path = arguments[0], "".join(arguments[1:])
    own = os.environ.get("SPARK_SUBMIT_OPTS", "")
    os.environ["SPARK_SUBMIT_OPTS"] = f'{own} "-XX:ArchiveClassesAtExit={file}" -Xlog:cds=error -Xlog:cds+dynamic=error'
    with tempfile.TemporaryDirectory() as folder:
        conf = {"spark.sql.warehouse.dir": os.path.join(folder, "warehouse"), "spark.local.dir": folder}
        if extra_class_path:
            conf[EXTRA_CLASS_PATH] = extra_class_path
        spark = start_session("airflow_samza archive of classes", "local[2]", conf)
        java: Any = spark.sparkContext._gateway
        train(spark, folder)
        spark.stop()
        java.proc.stdin.close()  # upon which it ends
        return int(java.proc.wait())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
