"""Examples on pages of docs/ that only Spark can run, and what the page of comparisons says of Spark itself."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.documentation_pages import text_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

BLOCK = re.compile(r"<!-- (?:example|on Spark): (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)


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


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture
def available_now(spark: Any, tmp_path: Path) -> Callable[..., list[tuple[str, int]]]:
    """Run a query by hour over what came since its last run, and return the rows of its table: hour, count."""

    def rows(*keys: str) -> list[tuple[str, int]]:
        from pyspark.sql import functions as f

        views = spark.readStream.schema("country string, member int, at timestamp").json(f"{tmp_path}/in")
        hours = views.withWatermark("at", "0 seconds").groupBy(f.window("at", "1 hour"), *keys).count()
        query = hours.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
        query.option("path", f"{tmp_path}/out").option(
            "checkpointLocation", f"{tmp_path}/at"
        ).start().awaitTermination()
        found = spark.read.schema("window struct<start: timestamp>, count bigint").parquet(f"{tmp_path}/out").collect()
        return sorted((row["window"]["start"].strftime("%H"), row["count"]) for row in found)

    return rows


def put(folder: Path, name: str, *times: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = [json.dumps({"country": "NL", "member": 1, "at": f"2026-01-01T{time}:00Z"}) for time in times]
    (folder / "in" / name).write_text("\n".join(lines))


def test_available_now_continues_windows_and_reads_no_file_twice(
    available_now: Callable[..., list[tuple[str, int]]], tmp_path: Path
) -> None:
    put(tmp_path, "1.json", "09:10", "09:50")
    assert available_now("country") == []  # the open window is kept for the next run
    put(tmp_path, "2.json", "09:55", "10:30")
    assert available_now("country") == [("09", 3)]
    put(tmp_path, "1.json", "09:10")  # a file that was corrected
    assert available_now("country") == [("09", 3)]


def test_available_now_rejects_another_key_beside_the_same_checkpoint(
    available_now: Callable[..., list[tuple[str, int]]], tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    put(tmp_path, "1.json", "09:10")
    available_now("country")
    put(tmp_path, "2.json", "10:10")
    with pytest.raises(StreamingQueryException, match="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"):
        available_now("country", "member")
