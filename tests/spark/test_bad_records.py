"""Messages that cannot be read, or on which a callable fails, on a real Spark.

They go to the dead-letter stream, and the stages go on.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.stage_result import describe_result
from airflow_samza.systems.system import SystemBinding

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

LINES = [
    '{"sensor": 1, "value": 4}',
    '{"sensor": 1, "value": 0}',
    "no JSON",
    '{"sensor": 2, "value": 2}',
    '{"sensor": null, "value": 7}',
    '{"sensor": 3, "value": "many"}',
    '{"sensor": 4, "value": 10}',
]


def letters(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in sorted((folder / "out" / "bad").glob("part-*.json"))
        for line in path.read_text().splitlines()
    ]


def test_two_stages_go_on_without_the_messages_that_fail(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "readings").mkdir(parents=True)
    (data / "readings" / "1.json").write_text("\n".join(LINES) + "\n")
    (data / "readings" / "2.json").write_text("\n".join(LINES) + "\n")
    runtime = SparkRuntime(
        str(tmp_path / "root"), {"lake": SystemBinding("files", {"root": str(data)})}, idle_seconds=60
    )
    run = runtime.prepare(RunRequest("samza_spark_apps.bad_records:readings", "run 1"))
    try:
        results = [runtime.run_stage(run, stage.stage_id) for stage in run.plan.stages]
    finally:
        runtime.close(run, wait_seconds=60)
    rows = pq.read_table(data / "out" / "small").to_pylist()
    assert sorted((row["sensor"], row["value"]) for row in rows) == [(1, 25), (1, 25), (4, 10), (4, 10)]
    found = letters(data)
    assert Counter(letter["operator"].removeprefix("spark-bad-records-1-") for letter in found) == {
        "input-readings": 6,
        "map-inverse": 2,
        "filter-below-fifty": 2,
    }
    unread = sorted(
        (letter["offset"], letter["message"]) for letter in found if letter["operator"].endswith("input-readings")
    )
    assert [offset for offset, _ in unread] == [2, 2, 4, 4, 5, 5]
    assert [unread[0][1], json.loads(unread[2][1]), unread[4][1]] == [LINES[2], {"sensor": None, "value": 7}, LINES[5]]
    assert {letter["offset"] for letter in found if letter["operator"].endswith("inverse")} == {1}
    text = "\n".join(describe_result(results[0]))
    assert "dead letters.inverse: 2" in text
    assert "bad records, for example:" in text
    assert "input 'readings' (readings, partition 0, offset 2): no JSON" in text
