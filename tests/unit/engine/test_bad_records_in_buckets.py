"""Dead letters in a bucket: two stages send them to one output there, beside a root in the same bucket.

The client of the tests, boto3, is none of ours.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from airflow_samza import dead_letter, stream_application
from airflow_samza.errors import MessageError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.failpoints import VARIABLE
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemBinding, SystemStreamPartition
from demo.store_servers import BUCKET, S3Server
from tests.support.budgets import extended_but
from tests.support.runs_here import run_stage

LINES = [
    '{"sensor": 1, "value": 4}',
    '{"sensor": 1, "value": 0}',
    "no JSON",
    '{"sensor": 2, "value": 2}',
    '{"sensor": null, "value": 7}',
]
FILES = 2


@dataclass(frozen=True)
class Reading:
    sensor: int
    value: int


READINGS: dict[str, Any] = {
    "system": "lake",
    "schema": Reading,
    "partitions": 2,
    "path": "readings",
    "format": "json",
}


def inverse(reading: Reading) -> Reading:
    return Reading(reading.sensor, 100 // reading.value)


def below_fifty(reading: Reading) -> bool:
    if reading.value == 50:
        raise ValueError("fifty is neither")
    return reading.value < 50


@stream_application("readings", default_system="log")
def readings(app: Any) -> None:
    bad = dead_letter(app.output_stream("bad", system="lake", path="out/bad", format="json"))
    small = app.output_stream("small", system="lake", path="out/small", format="parquet")
    inverted = app.input_stream("readings", **READINGS, on_error=bad).map(inverse, on_error=bad, id="inverse")
    inverted.partition_by("sensor", id="by-sensor").filter(below_fifty, on_error=bad, id="below-fifty").send_to(small)


@stream_application("strict", default_system="log")
def strict(app: Any) -> None:
    """The same in one stage, which fails at fifty."""
    bad = dead_letter(app.output_stream("bad", system="lake", path="out/bad", format="json"))
    small = app.output_stream("small", system="lake", path="out/small", format="parquet")
    inverted = app.input_stream("readings", **READINGS, on_error=bad).map(inverse, on_error=bad, id="inverse")
    inverted.filter(below_fifty, id="below-fifty").send_to(small)


DEAD_LETTERS = {"input": 2 * FILES, "inverse": FILES, "fifty": FILES}
"""Of the lines: two of each file cannot be read, none is 0 inverted, and a half of 100 is fifty."""


class Bucket:
    """A bucket with readings and the root of the runs that process them."""

    def __init__(self, server: S3Server, prefix: str) -> None:
        self.prefix = prefix
        self.url = server.url(prefix)
        self.bindings = {"lake": SystemBinding("files", {"root": f"{self.url}/data"})}
        self.runtime = SparkRuntime(f"{self.url}/root", self.bindings)
        keys = {"aws_access_key_id": "tests", "aws_secret_access_key": "tests", "region_name": "us-east-1"}
        self.client = boto3.client("s3", endpoint_url=server.endpoint, **keys)
        for number in range(FILES):
            self.client.put_object(
                Bucket=BUCKET, Key=f"{prefix}/data/readings/{number}.json", Body="\n".join(LINES).encode()
            )

    def plan(self, name: str, run_id: str = "run 1") -> RunPlan:
        return self.runtime.prepare(RunRequest(f"{__name__}:{name}", run_id))

    def run(self, plan: RunPlan, generation: int = 1) -> None:
        for stage in plan.plan.stages:
            run_stage(f"{self.url}/root", plan, stage.stage_id, generation, self.bindings)

    def parts(self) -> list[str]:
        """The keys of the files of the output that everybody sees."""
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{self.prefix}/data/out/bad/part-")
        return sorted(each["Key"] for each in found.get("Contents", ()))

    def letters(self) -> list[dict[str, Any]]:
        """The dead letters, as another program reads them."""
        lines = [
            line
            for key in self.parts()
            for line in self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode().splitlines()
        ]
        return [json.loads(line) for line in lines]

    def counted(self) -> Counter[str]:
        """The dead letters by where they come from."""
        return Counter(letter["operator"].rpartition("-")[2].replace("readings", "input") for letter in self.letters())


@pytest.fixture
def bucket(s3: S3Server, tmp_path: Path) -> Bucket:
    return Bucket(s3, f"letters/{tmp_path.parent.name}/{tmp_path.name}")


@pytest.mark.extended
def test_two_stages_send_what_fails_to_one_output_in_a_bucket(bucket: Bucket) -> None:
    bucket.run(bucket.plan("readings"))
    letters = bucket.letters()
    assert bucket.counted() == DEAD_LETTERS
    unread = sorted((found["offset"], found["message"]) for found in letters if "input" in found["operator"])
    assert [offset for offset, _ in unread] == [2, 2, 4, 4]
    assert [unread[0][1], json.loads(unread[2][1])] == [LINES[2], {"sensor": None, "value": 7}]


@pytest.mark.nightly
def test_an_application_reads_dead_letters_from_the_bucket(bucket: Bucket) -> None:
    bucket.run(bucket.plan("readings"))
    stream = StreamSpec("bad", partitions=1, schema="message string", format="json", path="out/bad")
    lake = FilesSystem("lake", bucket.bindings["lake"])
    envelopes = lake.consumer(stream, lake.slice(stream)).read(SystemStreamPartition("lake", "bad", 0), None)
    read = [row["message"] for run in envelopes if isinstance(run, MessageRun) for row in run.batch.to_pylist()]
    assert Counter(read) == Counter(letter["message"] for letter in bucket.letters())


@pytest.mark.extended
def test_a_cleared_stage_replaces_its_dead_letters_in_the_bucket(bucket: Bucket) -> None:
    plan = bucket.plan("readings")
    bucket.run(plan)
    before = bucket.parts()
    bucket.run(plan, generation=2)
    assert bucket.counted() == DEAD_LETTERS
    assert not set(before) & set(bucket.parts())


@pytest.mark.nightly
def test_a_second_run_leaves_the_dead_letters_of_the_first(bucket: Bucket) -> None:
    for run_id in ("run 1", "run 2"):
        bucket.run(bucket.plan("readings", run_id))
    assert bucket.counted() == {name: 2 * count for name, count in DEAD_LETTERS.items()}


@pytest.mark.extended
def test_a_stage_that_fails_shows_no_dead_letters_in_the_bucket(bucket: Bucket) -> None:
    with pytest.raises(MessageError, match="fifty is neither"):
        bucket.run(bucket.plan("strict"))
    assert bucket.parts() == []


DIES = """
import sys
from tests.unit.engine.test_bad_records_in_buckets import died
died(*sys.argv[1:])
"""


def died(root: str, lake: str, run_id: str) -> None:
    """Runs the first stage of a run in this process, which a failpoint ends."""
    bindings = {"lake": SystemBinding("files", {"root": lake})}
    plan = SparkRuntime(root, bindings).load_plan("readings", run_id)
    run_stage(root, plan, plan.plan.stages[0].stage_id, 1, bindings)


@pytest.mark.parametrize("place", extended_but(["after-first-publish"], ["task-after-manifest", "after-first-publish"]))
@pytest.mark.extended
def test_dead_letters_of_a_runner_that_died_come_once(bucket: Bucket, place: str, tmp_path: Path) -> None:
    plan = bucket.plan("readings")
    path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-c", DIES, bucket.runtime.root, f"{bucket.url}/data", plan.run_id],
        env={**os.environ, "PYTHONPATH": path, VARIABLE: f"{place}@{tmp_path / 'struck'}"},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    bucket.run(plan)
    assert bucket.counted() == DEAD_LETTERS
