"""Publishers that really die at every step, on a real broker: the next one goes on, and each message is there once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.support.budgets import nightly_but
from tests.support.kafka_outputs import ids_of, new_topic, outputs, publication, read_all, rows, stage, stream
from tests.support.publication_steps import STEPS
from tests.support.waiting import until

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]

EPOCHS = 3
ROWS = 100  # per epoch, in transactions of up to forty


def publisher(
    address: str,
    root: Path,
    topic: str,
    staged: list[dict[int, Any]],
    step: str,
    times: int,
    delivery: str = "exactly_once",
    number: str = "SIGKILL",
) -> subprocess.Popen[str]:
    """A process that publishes, and gets a signal at a step that is reached the nth time."""
    arguments = [address, str(root), topic, json.dumps(staged), step, str(times), delivery, number]
    command = [sys.executable, "-m", "tests.support.publication_steps", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def die(*arguments: Any) -> None:
    process = publisher(*arguments)
    _, told = process.communicate()
    assert process.returncode == -9, told[-2000:]


def check(kafka: Kafka, root: Path, deaths: list[tuple[str, int]]) -> None:
    found, spec = outputs(kafka.address, root), stream(new_topic())
    found.create([spec])
    staged = [dict(stage(found, spec, [rows(ROWS * epoch, ROWS)])) for epoch in range(EPOCHS)]
    for step, times in deaths:
        die(kafka.address, root, spec.name, staged, step, times)
    for epoch, described in enumerate(staged):
        found.publish(spec, publication(described, epoch, final=epoch == EPOCHS - 1))
    seen = read_all(kafka.address, spec.name)
    assert sorted(ids_of(seen)) == list(range(ROWS * EPOCHS))
    by_key: dict[bytes | None, list[int]] = {}
    for message, number in zip(seen, ids_of(seen), strict=True):
        by_key.setdefault(message.key, []).append(number)
    assert all(ids == sorted(ids) for ids in by_key.values())


@pytest.mark.parametrize("step", nightly_but(["begin", "message", "commit", "committed"], STEPS))
def test_dying_at_any_step_loses_and_doubles_nothing(kafka: Kafka, tmp_path: Path, step: str) -> None:
    check(kafka, tmp_path, [(step, STEPS[step][-1])])


@pytest.mark.nightly
@pytest.mark.parametrize(("step", "times"), [(step, number) for step, times in STEPS.items() for number in times])
def test_dying_again_while_going_on_loses_and_doubles_nothing(
    kafka: Kafka, tmp_path: Path, step: str, times: int
) -> None:
    check(kafka, tmp_path, [("committed", 1), (step, times), ("marker", 1)])


def test_at_least_once_loses_nothing_and_repeats_no_epoch_that_is_marked(kafka: Kafka, tmp_path: Path) -> None:
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic(), delivery="at_least_once")
    found.create([spec])
    staged = [dict(stage(found, spec, [rows(ROWS * epoch, ROWS)])) for epoch in range(EPOCHS)]
    die(kafka.address, tmp_path, spec.name, staged, "marker", 2, "at_least_once")  # in the second epoch
    for epoch, described in enumerate(staged):
        found.publish(spec, publication(described, epoch, final=epoch == EPOCHS - 1))
    repeated = range(ROWS, 2 * ROWS)
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == sorted([*range(ROWS * EPOCHS), *repeated])


@pytest.mark.parametrize("step", nightly_but(("commit",), ("commit", "message", "marker")))
def test_a_publisher_that_slept_through_a_retry_publishes_nothing_more(kafka: Kafka, tmp_path: Path, step: str) -> None:
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic())
    found.create([spec])
    staged = [dict(stage(found, spec, [rows(ROWS * epoch, ROWS)])) for epoch in range(EPOCHS)]
    times = STEPS[step][-1]
    zombie = publisher(kafka.address, tmp_path, spec.name, staged, step, times, "exactly_once", "SIGSTOP")
    try:
        until(lambda: psutil.Process(zombie.pid).status() == psutil.STATUS_STOPPED, 60)
        for epoch, described in enumerate(staged):
            found.publish(spec, publication(described, epoch, final=epoch == EPOCHS - 1))
        zombie.send_signal(signal.SIGCONT)
        _, told = zombie.communicate(timeout=60)
        assert zombie.returncode in (0, 3), told  # it saw that all is published, or that what it had staged is gone
    finally:
        zombie.kill()
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == list(range(ROWS * EPOCHS))
