"""Runs whose stages are joined by topics on Kafka, without Spark: in every mode, and when processes die, the model's outputs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_samza.errors import SamzaError
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.runs.upkeep.retention import sweep_application
from tests.support.budgets import extended_but
from tests.support.dying_runners import Runners
from tests.support.kafka_stages import KafkaPlace, application, looping_app
from tests.support.kafka_topics import Topics
from tests.support.without_spark import run_stage

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

NAMES = {"staged": "bounded", "pipelined": "bounded", "continuous": "unbounded"}


@pytest.fixture(scope="module")
def runners(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    with looping_app(tmp_path_factory.mktemp("code"), application(kafka.address)) as made:
        yield made


@pytest.fixture
def place(kafka: Kafka, tmp_path: Path, runners: Runners) -> KafkaPlace:
    made = KafkaPlace(tmp_path, kafka.address)
    made.send(0, 60)
    return made


def planned(place: KafkaPlace, mode: str, run_id: str = "run", **config: str) -> RunPlan:
    run = place.prepare(NAMES[mode], mode, run_id, **config)
    assert {run.stream(name).system for name in ("by-word", "odd-by-n", "all-by-n")} == {"events"}
    return run


@pytest.mark.parametrize("mode", extended_but(["pipelined", "continuous"], NAMES))
def test_a_repartition_and_a_join_over_kafka_give_what_the_model_gives(
    place: KafkaPlace, runners: Runners, mode: str
) -> None:
    run = planned(place, mode)
    if mode == "continuous":
        place.runtime.drain(run)
    runners.start(place, run)
    assert runners.wait() == 0
    assert place.differences() == []


@pytest.mark.parametrize(
    ("mode", "step"),
    [
        ("staged", "task-before-manifest"),
        ("pipelined", "after-commit*3"),
        pytest.param("continuous", "before-commit*4", marks=pytest.mark.extended),
        ("continuous", "task-after-manifest*6"),
    ],
)
def test_who_dies_in_the_midst_of_an_epoch_leaves_nothing_double(
    place: KafkaPlace, runners: Runners, mode: str, step: str
) -> None:
    run = planned(place, mode)
    if mode == "continuous":
        place.runtime.drain(run)
    runners.start(place, run, step)
    assert runners.wait() == -9
    runners.start(place, run)
    assert runners.wait() == 0
    assert place.differences() == []


def test_a_clear_writes_topics_of_its_own_and_all_go_with_the_run(place: KafkaPlace, runners: Runners) -> None:
    run = planned(place, "staged")
    for generation in (1, 2):
        runners.start(place, run, generation=generation)
        assert runners.wait() == 0
        assert place.differences() == []
    names = [at_brokers(place, name) for name in place.own_topics.topics()]
    assert len(names) == 2 * 3
    brokers = place.own_topics.store.brokers
    assert set(brokers.find_all(names)) == set(names)
    place.runtime.close(run)
    upkeep, later = place.runtime.upkeep, time.time() + 30 * 86400
    swept = sweep_application(upkeep.files, upkeep.systems_of, run.application, Keep(), now=later)
    assert len(swept.topics) == 2 * 3
    assert place.own_topics.topics() == []
    assert brokers.find_all(names) == {}


def test_a_topic_that_is_deleted_while_the_run_goes_on_is_one_sentence(place: KafkaPlace, topics: Topics) -> None:
    run = planned(place, "staged")
    run_stage(place.runtime, run, "lines", 1, {})
    (name,) = [name for name in place.own_topics.topics() if "by-word" in name]
    topics.delete(at_brokers(place, name))
    with pytest.raises(SamzaError, match="was deleted, or created again"):
        run_stage(place.runtime, run, "by-word", 1, {})


def at_brokers(place: KafkaPlace, name: str) -> str:
    found = place.own_topics.topic(name).messages
    assert found is not None
    return str(found["topic"])
