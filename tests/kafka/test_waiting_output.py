"""Output that is committed and not published, and for which no retry comes: it is shown, kept, and published on request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from airflow_samza.cli.app import app
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import Claim, RunnerFolder
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.runs.upkeep.retention import sweep_application
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.kafka.test_output_runs import Publishing, run
from tests.support.budgets import nightly_but
from tests.support.dying_runners import Runners
from tests.support.kafka_outputs import new_topic, read_all

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]

MONTHS = 90 * 86400.0


def say(place: Publishing, *words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--root", place.runtime.root])
    assert done.exit_code == 0, done.output
    return done.output


def left(tmp_path: Path, kafka: Kafka, code: Path, runners: Runners, mode: str) -> tuple[Publishing, RunPlan]:
    """A run whose runner died behind a commit: in the first epoch of several, or in the only one."""
    place = Publishing(tmp_path, kafka.address, code, on_rerun="append")
    place.send(0, 40)
    planned = place.plan("unbounded" if mode == "continuous" else "bounded", mode)
    assert run(place, runners, planned, "after-commit") < 0
    assert place.published() == []
    return place, planned


@pytest.mark.parametrize("mode", nightly_but(["continuous"], ["continuous", "staged"]))
def test_what_waits_is_shown_and_a_command_publishes_it_once(
    tmp_path: Path, kafka: Kafka, code: Path, runners: Runners, mode: str
) -> None:
    place, planned = left(tmp_path, kafka, code, runners, mode)
    waits = f"messages for '{place.topic}' of the stage lines (generation 1.1, epoch 0)"
    assert f"{waits} are committed and wait to be published" in say(place, "status")
    assert f"{waits} that are committed and not published" in say(place, "fsck")
    assert f"{waits} waited, and are published." in say(place, "runs", "finish")
    first = place.published()
    assert set(first) <= set(place.all())
    assert first
    assert "Nothing of run run" in say(place, "runs", "finish")
    assert "wait to be published" not in say(place, "status")
    if mode == "continuous":
        place.runtime.drain(planned)
    assert run(place, runners, planned) == 0  # a retry goes on behind it
    assert place.published() == place.all()


@pytest.mark.parametrize("step", nightly_but(["commit 2"], ["committed 1", "commit 2", "committed 3"]))
def test_a_command_publishes_the_rest_of_an_epoch_of_which_some_transactions_are_committed(
    tmp_path: Path, kafka: Kafka, code: Path, runners: Runners, step: str
) -> None:
    place, planned = left(tmp_path, kafka, code, runners, "staged")
    command = [sys.executable, "-m", "tests.support.half_published", *step.split(), "runs", "finish"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(code)])}
    died = subprocess.run([*command, "--root", place.runtime.root], env=environment, check=False)
    assert died.returncode == -signal.SIGKILL
    published = place.published()
    assert 10 <= len(published) < len(place.all())
    assert len(set(published)) == len(published)
    assert "are committed and wait to be published" in say(place, "status")
    say(place, "runs", "finish")
    assert place.published() == place.all()
    assert "Nothing of run run" in say(place, "runs", "finish")
    assert run(place, runners, planned) == 0  # the stage has its result: a retry has nothing to do
    assert place.published() == place.all()


def test_a_command_publishes_the_output_that_is_left_of_two(
    tmp_path: Path, kafka: Kafka, code: Path, runners: Runners
) -> None:
    second = new_topic()
    more = f')\n    lines.send_to(app.output_stream("{second}", system="events", schema=LINE, partitions=1, key="word")'
    place = Publishing(tmp_path, kafka.address, code, more=more)
    place.send(0, 40)
    assert run(place, runners, place.plan("bounded", "staged"), "after-first-publish") < 0
    counts = [len(read_all(kafka.address, topic)) for topic in (place.topic, second)]
    assert sorted(counts) == [0, 40]
    assert "40 messages" in say(place, "runs", "finish")
    assert [len(read_all(kafka.address, topic)) for topic in (place.topic, second)] == [40, 40]


def test_nothing_waits_of_a_generation_that_another_has_replaced(
    tmp_path: Path, kafka: Kafka, code: Path, runners: Runners
) -> None:
    place, planned = left(tmp_path, kafka, code, runners, "staged")
    assert run(place, runners, planned, generation=2) == 0
    assert "Nothing of run run" in say(place, "runs", "finish")
    assert place.published() == place.all()


def test_retention_keeps_what_waits(tmp_path: Path, kafka: Kafka, code: Path, runners: Runners) -> None:
    place, planned = left(tmp_path, kafka, code, runners, "staged")
    place.runtime.close(planned, succeeded=False)
    files = open_filesystem(place.runtime.root)

    def sweep() -> tuple[list[str], str]:
        swept = sweep_application(
            files,
            lambda plan: bind_systems(run_bindings(plan.systems, {}), files.root),
            planned.application,
            Keep(runs=0),
            now=time.time() + MONTHS,
        )
        return swept.runs, "".join(swept.kept.values())

    assert sweep() == ([], f"40 messages for '{place.topic}' of the stage lines (generation 1.1, epoch 0) are "
                       "committed and not published (airflow-samza runs finish publishes them)")  # fmt: skip
    say(place, "runs", "finish")
    assert place.published() == place.all()
    assert sweep() == (["publishing/run"], "")


def test_rejects_to_finish_a_run_whose_runner_lives(tmp_path: Path, kafka: Kafka, code: Path, runners: Runners) -> None:
    place, planned = left(tmp_path, kafka, code, runners, "staged")
    alive = RunnerFolder(RunFolder(planned.application, planned.run_id), "alive", 1)
    write_once(open_filesystem(place.runtime.root), alive.claim, Claim(**identity(), claimed_at=time.time()))
    done = CliRunner().invoke(app, ["runs", "finish", "--root", place.runtime.root])
    assert done.exit_code != 0
    assert "A stage runner of the run 'run' of 'publishing' lives" in done.output
    assert place.published() == []
