"""Choosing in the epochs of stages, by the code of the stage runner; only Spark is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.records import encode
from airflow_samza.runs.records import folders
from airflow_samza.runs.records.epoch_records import Manifest
from airflow_samza.runs.records.run_plan import PIPELINED
from airflow_samza.systems.system import SystemBinding
from tests.support.runs_here import Here

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def events(tmp_path: Path) -> dict[str, SystemBinding]:
    """The environment's default system, with three messages of stream a and two of stream b."""
    for stream, count in {"a": 3, "b": 2}.items():
        Here(tmp_path).log.append(stream, pa.table({"id": pa.array(range(count), pa.int64())}), partitions=1)
    return {"events": SystemBinding("log", {"root": str(tmp_path)})}


def order(root: Path, bindings: dict[str, SystemBinding], **config: str) -> str:
    runtime = SparkRuntime(str(root), bindings, default_system="events")
    config = {key.replace("_", "."): value for key, value in config.items()}
    plan = runtime.prepare(RunRequest("tests.support.choosing_apps:ordering", "run", mode=PIPELINED, config=config))
    here = Here(root)
    here.stages(plan, bindings=bindings)
    return "".join(row["stream"] for row in here.rows("order"))


def test_a_priority_key_names_the_default_system_of_the_environment(
    tmp_path: Path, events: dict[str, SystemBinding]
) -> None:
    assert order(tmp_path, events, task_chooser_priorities_events_b="1") == "bbaaa"


@pytest.mark.parametrize("key", ["streams_b_samza_priority", "systems_events_streams_b_samza_priority"])
def test_samzas_keys_of_streams_count_in_the_default_system_of_the_environment(
    tmp_path: Path, events: dict[str, SystemBinding], key: str
) -> None:
    assert order(tmp_path, events, **{key: "1"}) == "bbaaa"


def test_a_bootstrap_key_counts_in_the_default_system_of_the_environment(
    tmp_path: Path, events: dict[str, SystemBinding]
) -> None:
    assert order(tmp_path, events, streams_b_samza_bootstrap="true") == "bbaaa"


@pytest.mark.parametrize(("batch", "whole"), [({}, "ababa"), ({"task_consumer_batch_size": "2"}, "aabba")])
@pytest.mark.parametrize("limit", ["1", "3"])
def test_turns_go_on_from_the_manifest_of_the_epoch_before(
    tmp_path: Path, events: dict[str, SystemBinding], batch: dict[str, str], whole: str, limit: str
) -> None:
    assert order(tmp_path, events, job_epoch_max_messages=limit, **batch) == whole


def test_an_epoch_goes_on_from_a_manifest_that_knows_nothing_of_choosing(
    tmp_path: Path, events: dict[str, SystemBinding], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a former version has left it."""

    def without(record: object) -> bytes:
        data = json.loads(encode(record))
        if isinstance(record, Manifest):
            del data["checkpoint"]["chooser"]
        return json.dumps(data).encode()

    monkeypatch.setattr(folders, "encode", without)
    assert sorted(order(tmp_path, events, job_epoch_max_messages="1")) == list("aaabb")
