"""Runs that publish to a real broker: plans, deaths at every step of an epoch, clears, and runs of one interval."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.run_plan import RunPlan
from tests.support.budgets import nightly_but
from tests.support.dying_runners import Runners
from tests.support.kafka_outputs import new_topic, read_all
from tests.support.looping import FEW, Place

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]

APPLICATION = """
from airflow_samza import stream_application

LINE = "word string, n bigint, at timestamp"

def describe(app, bounded):
    app.system("events", kind="kafka", **{{"bootstrap.servers": "{address}"}})
    lines = app.input_stream("lines", system="log", schema=LINE, partitions=2, bounded=bounded)
    output = app.output_stream("out", system="events", schema=LINE, partitions=3, key="word", options={options}{more})
    lines.send_to(output)

@stream_application("publishing")
def bounded(app):
    describe(app, True)

@stream_application("publishing-on")
def unbounded(app):
    describe(app, False)
"""

STEPS = ("task-after-manifest", "before-commit", "after-commit", "after-first-publish", "after-epoch", "before-result")

QUICK = ("before-commit", "after-commit", "after-first-publish")


class Publishing(Place):
    """A root with lines, and an application that publishes them to a topic of its own."""

    def __init__(self, folder: Path, address: str, code: Path, more: str = "", **options: str) -> None:
        super().__init__(folder)
        self.address = address
        self.topic = new_topic()
        self.module = f"publishing_{self.topic.replace('-', '_')}"
        (code / f"{self.module}.py").write_text(APPLICATION.format(address=address, options=options, more=more))

    def plan(self, name: str, mode: str, run_id: str = "run", generation: int = 1, hour: int = 0) -> RunPlan:
        start = datetime(2024, 1, 1, hour, tzinfo=timezone.utc)
        interval = DataInterval(start, start + timedelta(hours=1))
        config = {**FEW, "streams.out.samza.physical.name": self.topic}
        request = RunRequest(
            f"{self.module}:{name}", run_id, mode=mode, config=config, interval=interval, generation=generation
        )
        return self.runtime.prepare(request)

    def published(self) -> list[int]:
        return sorted(json.loads(seen.value or b"")["n"] for seen in read_all(self.address, self.topic))

    def all(self) -> list[int]:
        return sorted(n for _, n in self.sent)


def run(place: Publishing, runners: Runners, planned: RunPlan, die_at: str = "", generation: int = 1) -> int:
    runners.start(place, planned, die_at, generation)
    return runners.wait()


@pytest.mark.parametrize("step", nightly_but(QUICK, STEPS))
def test_a_run_that_dies_at_any_step_publishes_each_message_once(
    tmp_path: Path, kafka: Kafka, code: Path, runners: Runners, step: str
) -> None:
    place = Publishing(tmp_path, kafka.address, code)
    place.send(0, 40)
    planned = place.plan("unbounded", "continuous")
    place.runtime.drain(planned)
    times = "" if "result" in step else "*2"
    assert run(place, runners, planned, f"{step}{times}") < 0
    assert set(place.published()) < set(place.all()) or "result" in step
    assert run(place, runners, planned) == 0
    assert place.published() == place.all()


def test_a_run_of_one_epoch_publishes_when_it_has_committed(
    tmp_path: Path, kafka: Kafka, code: Path, runners: Runners
) -> None:
    place = Publishing(tmp_path, kafka.address, code)
    place.send(0, 40)
    planned = place.plan("bounded", "staged")
    note = planned.notes[planned.plan.stages[0].stage_id]["out"]
    assert f"; published to {place.topic!r} exactly once" in note
    assert run(place, runners, planned, "before-commit") < 0
    assert place.published() == []
    assert run(place, runners, planned) == 0
    assert place.published() == place.all()


def test_a_clear_of_what_is_published_is_rejected_by_plan_and_stage(
    tmp_path: Path, kafka: Kafka, code: Path, runners: Runners
) -> None:
    place = Publishing(tmp_path, kafka.address, code)
    place.send(0, 10)
    planned = place.plan("bounded", "staged")
    assert run(place, runners, planned) == 0
    assert run(place, runners, planned, generation=2) == 1  # a clear of the stage alone
    with pytest.raises(TopicError, match=r"10 messages are published .* by generation 1\.1 of this run"):
        place.plan("bounded", "staged", generation=2)
    with pytest.raises(TopicError, match=r"10 messages are published .* by the run 'run'"):
        place.plan("bounded", "staged", "backfill")
    assert run(place, runners, place.plan("bounded", "staged", "next", hour=1)) == 0
    assert place.published() == sorted(2 * place.all())  # the next hour reads, as it is declared, all lines


def test_a_clear_appends_where_the_output_permits_it_and_the_plan_says_so(
    tmp_path: Path, kafka: Kafka, code: Path, runners: Runners
) -> None:
    place = Publishing(tmp_path, kafka.address, code, on_rerun="append")
    place.send(0, 10)
    assert run(place, runners, place.plan("bounded", "staged")) == 0
    again = place.plan("bounded", "staged", generation=2)
    assert "10 messages are published already" in again.notes[again.plan.stages[0].stage_id]["out"]
    assert run(place, runners, again) == 0
    assert place.published() == sorted(2 * place.all())


class Died(BaseException):
    """The death of a process."""


@pytest.mark.parametrize("mode", nightly_but(["pipelined"], ["staged", "pipelined"]))
def test_output_that_waits_for_approval_is_published_once_by_it_and_never_without(
    tmp_path: Path, kafka: Kafka, code: Path, runners: Runners, mode: str
) -> None:
    place = Publishing(tmp_path, kafka.address, code, more=', publish="after approval"')
    place.send(0, 40)
    planned = place.plan("bounded", mode)
    assert run(place, runners, planned) == 0
    place.runtime.close(planned)
    assert place.published() == []
    for where in ("held_outputs", "finish"):
        with mock.patch(f"airflow_samza.runs.{where}.reach", side_effect=Died), pytest.raises(Died):
            place.runtime.publish(planned)
    assert place.published() in ([], place.all()) or mode == "pipelined"
    for _ in range(2):
        place.runtime.publish(planned)
        assert place.published() == place.all()
    other = place.plan("bounded", mode, "next", hour=1)
    assert run(place, runners, other) == 0
    place.runtime.give_up(other)
    assert place.published() == place.all()


def test_rejects_another_partitioner_than_kafkas(tmp_path: Path, kafka: Kafka, code: Path) -> None:
    place = Publishing(tmp_path, kafka.address, code, more=', partitioner="samza"')
    place.send(0, 10)
    with pytest.raises(ConfigError, match="The output 'out' has partitioner='samza'"):
        place.plan("bounded", "staged")


def test_a_run_that_goes_on_from_anothers_state_is_no_rerun(
    tmp_path: Path, kafka: Kafka, code: Path, runners: Runners
) -> None:
    place = Publishing(tmp_path, kafka.address, code)
    for number in range(2):
        place.send(20 * number, 20)
        planned = place.plan("unbounded", "continuous", f"run-{number}")
        place.runtime.drain(planned)
        assert run(place, runners, planned) == 0
        place.runtime.close(planned)
    assert place.published() == place.all()
