"""Examples on pages of docs/ that only Spark can run, and what the page of comparisons says of Spark itself."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documentation_pages import text_of

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(600)]

BLOCK = re.compile(r"<!-- (?:example|on Spark): (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)


@pytest.mark.nightly
def test_the_page_about_transform_does_what_it_says(tmp_path: Path) -> None:
    import pyarrow.dataset as ds

    shown = dict(BLOCK.findall(text_of("how-to/transform.md")))
    for name in ("members.py", "members_test.py"):
        (tmp_path / name).write_text(shown[name])
    (tmp_path / "landing" / "raw").mkdir(parents=True)
    (tmp_path / "landing" / "raw" / "1.jsonl").write_text(shown["input"])
    tested = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "members_test.py", "members.py"]
    done = subprocess.run(tested, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    program = "from airflow_samza.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *shlex.split(shown["shell"])[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = ds.dataset(tmp_path / "warehouse" / "members", format="parquet").to_table().to_pylist()
    assert sorted((row["member"], row["name"]) for row in rows) == [(1, "Ada Lovelace"), (2, "Grace Hopper")]


@pytest.mark.nightly
def test_the_page_about_topics_in_spark_does_what_it_says(tmp_path: Path) -> None:
    program = dict(BLOCK.findall(text_of("how-to/topics-in-spark.md")))["report.py"]
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "root"), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "2"]


AVAILABLE_NOW = """
import json
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession, functions as f

spark = (
    SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    .config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC").getOrCreate()
)

def put(name, *times):
    Path("in").mkdir(exist_ok=True)
    lines = [json.dumps({"country": "NL", "member": 1, "at": f"2026-01-01T{time}:00Z"}) for time in times]
    Path("in", name).write_text("\\n".join(lines))

def run(*keys):
    views = spark.readStream.schema("country string, member int, at timestamp").json("in")
    hours = views.withWatermark("at", "0 seconds").groupBy(f.window("at", "1 hour"), *keys).count()
    query = hours.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    query.option("path", "out").option("checkpointLocation", "checkpoint").start().awaitTermination()
    rows = spark.read.schema("window struct<start: timestamp>, count bigint").parquet("out").collect()
    return sorted((row["window"]["start"].strftime("%H"), row["count"]) for row in rows)

put("1.json", "09:10", "09:50")
print(run("country"))
put("2.json", "09:55", "10:30")
print(run("country"))
put("1.json", "09:10")
print(run("country"))
put("3.json", "11:10")
try:
    print(run("country", "member"))
except StreamingQueryException as error:
    print("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE" in str(error))
"""


@pytest.mark.nightly
def test_available_now_does_what_the_comparison_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AVAILABLE_NOW], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second, corrected, other_key = done.stdout.splitlines()
    assert first == "[]"  # the open window is kept for the next run
    assert second == "[('09', 3)]"
    assert corrected == "[('09', 3)]"  # a file that was read is not read again
    assert other_key == "True"


PIPELINE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()

@dp.table
def views():
    return spark.readStream.schema("member string").json("{folder}/in")

@dp.materialized_view
def totals():
    return spark.read.table("views").groupBy("member").count()
"""
TOTALS = """
from pyspark.sql import SparkSession

print(SparkSession.builder.master("local[1]").enableHiveSupport().getOrCreate().table("totals").collect())
"""


@pytest.mark.nightly
def test_a_declarative_pipeline_reads_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "src" / "views.py").write_text(PIPELINE.replace("{folder}", str(tmp_path)))
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: views\nstorage: file://{tmp_path}/store\nlibraries:\n  - glob:\n      include: src/**\n"
    )
    command = [
        str(Path(sys.executable).with_name("spark-pipelines")),
        *("--conf", "spark.sql.catalogImplementation=hive", "run", "--spec", "spark-pipeline.yml"),
    ]

    def totals(name: str, member: str) -> str:
        (tmp_path / "in" / name).write_text(json.dumps({"member": member}))
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        shown = subprocess.run([sys.executable, "-c", TOTALS], cwd=tmp_path, capture_output=True, text=True, check=True)
        return shown.stdout.strip()

    assert totals("1.json", "a") == "[Row(member='a', count=1)]"
    assert totals("2.json", "a") == "[Row(member='a', count=2)]"  # the view was computed anew
    assert totals("1.json", "z") == "[Row(member='a', count=2)]"  # a file that was replaced
