"""Runs whose stages are joined by topics on Kafka, without Spark: in every mode, and when processes die, the model's outputs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_samza.runs.records.run_plan import RunPlan
from tests.support.kafka_stages import KafkaPlace

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

NAMES = {"staged": "bounded", "pipelined": "bounded", "continuous": "unbounded"}


@pytest.fixture
def place(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaPlace]:
    made = KafkaPlace(tmp_path, kafka.address)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("looping_app", None)
    made.send(0, 60)
    yield made
    sys.modules.pop("looping_app", None)


def planned(place: KafkaPlace, mode: str, run_id: str = "run", **config: str) -> RunPlan:
    run = place.prepare(NAMES[mode], mode, run_id, **config)
    assert {run.stream(name).system for name in ("by-word", "odd-by-n", "all-by-n")} == {"events"}
    return run


@pytest.mark.parametrize("mode", NAMES)
def test_a_repartition_and_a_join_over_kafka_give_what_the_model_gives(place: KafkaPlace, mode: str) -> None:
    run = planned(place, mode)
    if mode == "continuous":
        place.runtime.drain(run)
    assert place.run(run) == 0, place.said
    assert place.differences() == []


@pytest.mark.parametrize(
    ("mode", "step"),
    [
        ("staged", "task-before-manifest"),
        ("pipelined", "after-commit*3"),
        ("continuous", "before-commit*4"),
        ("continuous", "task-after-manifest*6"),
    ],
)
def test_who_dies_in_the_midst_of_an_epoch_leaves_nothing_double(place: KafkaPlace, mode: str, step: str) -> None:
    run = planned(place, mode)
    if mode == "continuous":
        place.runtime.drain(run)
    assert place.run(run, die_at=step) == -9, place.said
    assert place.run(run) == 0, place.said
    assert place.differences() == []
