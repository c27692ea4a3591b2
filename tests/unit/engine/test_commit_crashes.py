"""Processes really die at every step of an epoch; whoever comes next goes on, and nothing is lost or doubled.

No Spark needed.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import SUCCEEDED, UNFINISHED, StageHandle
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemBinding, SystemStreamPartition
from tests.support.dying_runners import Runners

APPLICATION = """
from airflow_samza import count, stream_application

@stream_application("crashing")
def app(app):
    lines = app.input_stream("lines", system="log", schema="word string, n bigint", partitions=2)
    words = lines.where("n > 0").partition_by("word", id="by-word")
    lines.send_to(app.output_stream("copy", system="log", schema="word string, n bigint", partitions=2, key="word"))
    words.aggregate("word", lines=count(), id="per-word").send_to(app.output_stream("counts", system="log", partitions=2, key="word"))
"""

EVERY_STEP = (
    "before-intent",
    "after-intent",
    "task-before-output",
    "task-before-manifest",
    "task-after-manifest",
    "before-commit",
    "after-commit",
    "after-first-publish",
    "before-result",
    "after-result",
)


class Crashing:
    """A root with an application and its run, driven by processes that die when told to."""

    def __init__(self, folder: Path, runners: Runners) -> None:
        self.folder = folder
        self.runners = runners
        self.root = str(folder / "root")
        self.runtime = SparkRuntime(self.root)
        self.log = LogSystem("log", SystemBinding("log", {"root": self.root}))

    def prepare(self, run_id: str) -> RunPlan:
        return self.runtime.prepare(RunRequest("crashing_app:app", run_id))

    def drive(self, run_id: str, *stages: str, generation: int = 1, die_at: str = "") -> int:
        self.runners.start_stages([self.root, "crashing", run_id, str(generation), *stages], self.folder, die_at)
        return self.runners.wait()

    def messages(self, topic: str) -> list[str]:
        """All user messages of a topic, sorted."""
        found = self.log.metadata([StreamSpec(topic)])[topic]
        consumer = self.log.consumer(StreamSpec(topic))
        rows = []
        for partition in range(found.partitions):
            place = SystemStreamPartition("log", topic, partition)
            for envelope in consumer.read(place, OffsetRange(found.oldest[partition], found.head[partition])):
                if isinstance(envelope, MessageRun):
                    rows += [repr(row) for row in envelope.batch.to_pylist()]
        consumer.close()
        return sorted(rows)


@pytest.fixture(scope="module")
def runners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    folder = tmp_path_factory.mktemp("code")
    (folder / "crashing_app.py").write_text(APPLICATION)
    sys.path.insert(0, str(folder))
    made = Runners(folder)
    yield made
    made.close()
    sys.path.remove(str(folder))
    sys.modules.pop("crashing_app", None)


@pytest.fixture
def crashing(tmp_path: Path, runners: Runners) -> Crashing:
    made = Crashing(tmp_path, runners)
    import pyarrow as pa

    rows = pa.table({"word": ["a", "b", "c", "a"] * 25, "n": list(range(100))})
    made.log.append("lines", rows, key=["word"], partitions=2)
    return made


def first_stage(plan: RunPlan) -> str:
    return plan.plan.stages[0].stage_id


@pytest.mark.parametrize("step", EVERY_STEP)
@pytest.mark.few(4)
def test_dying_at_any_step_loses_and_doubles_nothing(crashing: Crashing, step: str) -> None:
    plan = crashing.prepare("run-1")
    stage = first_stage(plan)
    assert crashing.drive("run-1", stage, die_at=step) == -signal.SIGKILL
    assert crashing.drive("run-1", stage, "by-word") == 0
    by_word = next(name for name in crashing.log.topics() if "by-word" in name)
    assert len(crashing.messages("copy")) == 100
    counts = sorted(repr({"word": word, "lines": lines}) for word, lines in {"a": 49, "b": 25, "c": 25}.items())
    assert crashing.messages(by_word) == counts  # partial results, which here are whole: a word lies in one partition
    assert crashing.messages("counts") == counts


@pytest.mark.parametrize(
    "step", ["before-commit", "after-commit", "after-first-publish", "before-result", "after-result"]
)
def test_any_process_rolls_forward_without_a_runner(crashing: Crashing, step: str) -> None:
    plan = crashing.prepare("run-1")
    stage = first_stage(plan)
    assert crashing.drive("run-1", stage, die_at=step) == -signal.SIGKILL
    handle = crashing.runtime.submit(plan, stage)  # everything is staged: no Spark is started for this
    assert crashing.runtime.status(handle).state == (SUCCEEDED if step == "after-result" else UNFINISHED)
    assert crashing.runtime.finish(handle).outputs
    assert crashing.runtime.live_runners(plan) == []
    assert len(crashing.messages("copy")) == 100


def test_a_newer_generation_replaces_an_output_that_was_half_published(crashing: Crashing) -> None:
    plan = crashing.prepare("run-1")
    stage = first_stage(plan)
    assert crashing.drive("run-1", stage, die_at="after-first-publish") == -signal.SIGKILL
    assert crashing.drive("run-1", stage, generation=2) == 0
    assert len(crashing.messages("copy")) == 100
    handle = StageHandle("crashing", "run-1", stage, Generation(1, 2))
    assert crashing.runtime.finish(handle).generation == "1.2"


def test_two_runs_write_to_topics_of_their_own(crashing: Crashing) -> None:
    for run_id in ("run-1", "run-2"):
        assert crashing.drive(run_id, first_stage(crashing.prepare(run_id))) == 0
    topics = [name for name in crashing.log.topics() if "by-word" in name]
    assert len(topics) == 2
    assert all(len(crashing.messages(topic)) == 3 for topic in topics)  # a partial result for each word
    assert len(crashing.messages("copy")) == 200  # an output of two runs holds both
