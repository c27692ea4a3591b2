"""Runners and tasks really die at every step of an epoch, in every mode.

A retry goes on, and all is as in an undisturbed run.

The random test takes ``CRASH_SECONDS`` (20); ``CRASH_SEED`` repeats what a run has printed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_samza.runs.records.run_plan import RunPlan
from demo.store_servers import S3Server, Server
from tests.support.budgets import extended_but, seconds
from tests.support.dying_runners import Runners
from tests.support.failpoints import PLACES
from tests.support.faulty_store import Asked, FaultyStore
from tests.support.looping import APPLICATION, Place

SECONDS = seconds("CRASH_SECONDS", 20)
STORE_SECONDS = SECONDS / 6  # for each store, nightly

pytestmark = pytest.mark.timeout(600 + 2 * SECONDS)

STOPPED = "continuous, stopped, and gone on with by another run"

QUICK = ("after-intent", "task-before-state", "after-commit")
"""The steps that each change tries."""

MODES = {"staged": "bounded", "pipelined": "bounded", "continuous": "unbounded"}


@pytest.fixture(scope="module")
def runners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    folder = tmp_path_factory.mktemp("code")
    (folder / "looping_app.py").write_text(APPLICATION)
    sys.path.insert(0, str(folder))
    sys.modules.pop("looping_app", None)
    made = Runners(folder)
    yield made
    made.close()
    sys.path.remove(str(folder))
    sys.modules.pop("looping_app", None)


def reject_difference(place: Place, run: RunPlan, why: str = "") -> None:
    """The outputs are those of an undisturbed run, and so are the counts of the results."""
    assert place.copied() == sorted(place.sent), why
    assert place.counted() == place.expected(), why
    assert place.minutes() == place.expected_minutes(), why
    results = {stage.stage_id: place.runtime.finish(place.folder_of(run, stage.stage_id)) for stage in run.plan.stages}
    assert results["lines"].inputs[0].messages == len(place.sent), why
    assert results["by-word"].inputs[0].messages == len(place.sent), why


@pytest.mark.parametrize("mode", ["pipelined", "continuous"])
@pytest.mark.parametrize("step", extended_but(QUICK, PLACES, PLACES[1::2]))
@pytest.mark.few(2, 7)
def test_dying_at_any_step_of_any_epoch_loses_and_doubles_nothing(
    tmp_path: Path, runners: Runners, mode: str, step: str
) -> None:
    place = Place(tmp_path)
    place.send(0, 60)
    run = place.prepare(MODES[mode], mode)
    for times in (1, 4):
        runners.start(place, run, f"{step}*{times}" if "result" not in step else step)
        if times == 1:
            place.send(60, 20)  # while it runs: those who bound their slice before do not see it
        if mode == "continuous":
            place.runtime.drain(run)
        if runners.wait() == 0:
            break
    else:
        runners.start(place, run)
        assert runners.wait() == 0
    assert list(tmp_path.glob("died-*"))
    if mode == "pipelined":
        del place.sent[60:]
    reject_difference(place, run)


@pytest.mark.parametrize("torn", [b"", b'{"task": 0, "ep', bytes(200)], ids=["empty", "short", "zeros"])
@pytest.mark.parametrize("mode", ["staged", "continuous"])
@pytest.mark.few(2)
def test_a_task_whose_manifest_a_power_failure_tore_runs_again(
    tmp_path: Path, runners: Runners, mode: str, torn: bytes
) -> None:
    place = Place(tmp_path)
    place.send(0, 60)
    run = place.prepare(MODES[mode], mode)
    if mode == "continuous":
        place.runtime.drain(run)
    runners.start(place, run, "before-commit")
    assert runners.wait() == -signal.SIGKILL
    left = sorted((tmp_path / "root").glob("**/manifests/**/0.json"))
    assert left, "what this test tears is elsewhere now"
    for manifest in left:
        manifest.write_bytes(torn)
    runners.start(place, run)
    assert runners.wait() == 0
    reject_difference(place, run)


def run_with_deaths(
    place: Place, runners: Runners, run: RunPlan, chance: random.Random, why: str, told: Callable[[], None]
) -> None:
    """Runs to the end, dying up to four times on the way; ``told`` is called once, while the first try runs."""
    for number in range(chance.randint(1, 4)):
        runners.start(place, run, f"{chance.choice(PLACES)}*{chance.randint(1, 9)}")
        if not number:
            time.sleep(chance.uniform(0, 0.3))  # the moment is what is tried here
            told()
        if runners.wait() != -signal.SIGKILL:
            break
    runners.start(place, run)
    assert runners.wait() == 0, why


def random_run(place: Place, runners: Runners, seed: int) -> None:
    """A run, or two, in a random mode, which dies on the way."""
    chance = random.Random(seed)
    mode = chance.choice([*sorted(MODES), STOPPED])
    why = f"CRASH_SEED={seed}, {mode}"
    for first in range(0, 90, 30):
        place.send(first, 30)
    limit = str(chance.choice([5, 11, 40, 1000]))
    if mode in ("staged", "pipelined"):
        run = place.prepare("bounded", mode, **{"job.epoch.max.messages": limit})
        run_with_deaths(place, runners, run, chance, why, lambda: None)
        reject_difference(place, run, why)
    for last in (False, True) if mode == STOPPED else (True,) if mode == "continuous" else ():
        run = place.prepare("unbounded", "continuous", f"run-{last}", **{"job.epoch.max.messages": limit})

        def told(run: RunPlan = run, last: bool = last) -> None:
            place.send(len(place.sent), 10)
            if last:
                place.runtime.drain(run)
            else:
                place.runtime.stop(run)

        run_with_deaths(place, runners, run, chance, why, told)
        place.runtime.close(run)  # what it keeps is the next run's
    assert (place.copied(), place.counted(), place.minutes()) == (
        sorted(place.sent),
        place.expected(),
        place.expected_minutes(),
    ), why


def random_seed() -> int:
    seed = int(os.environ.get("CRASH_SEED", str(random.randrange(2**32))))
    print(f"CRASH_SEED={seed}")
    return seed


@pytest.mark.random
@pytest.mark.extended
def test_runs_that_die_at_random_places_end_as_undisturbed_ones(tmp_path: Path, runners: Runners) -> None:
    seed, number = random_seed(), 0
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        random_run(Place(tmp_path / str(number)), runners, seed + number)
        number += 1
    print(f"{number} runs")


PASSING = ("slow", "error", "conflict", "lost", "error after", "broken", "torn")


def failing_sometimes(seed: int) -> Callable[[Asked], str | None]:
    """Answers of a store of which one in thirty fails, in any way that passes; half of the lost ones are creates."""
    chance, lock = random.Random(seed), threading.Lock()

    def fault(asked: Asked) -> str | None:
        with lock:
            if asked.conditional and chance.random() < 0.05:
                return "lost"
            fault = chance.choice(PASSING) if chance.random() < 1 / 30 else None
        return None if fault == "conflict" and not asked.conditional else fault

    return fault


def run_on_a_failing_store(
    tmp_path: Path, runners: Runners, server: Server, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    with FaultyStore(server.endpoint, failing_sometimes(seed)) as store:
        for name, value in server.environment.items():
            runners.environment[name] = value.replace(server.endpoint, store.endpoint)
            monkeypatch.setenv(name, runners.environment[name])
        try:
            (tmp_path / str(seed)).mkdir()
            random_run(Place(tmp_path / str(seed), server.url(f"{tmp_path.parent.name}/{seed}")), runners, seed)
        finally:
            runners.environment = {}


@pytest.mark.extended
def test_a_run_that_dies_on_a_store_that_loses_answers_ends_as_an_undisturbed_one(
    tmp_path: Path, runners: Runners, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_on_a_failing_store(tmp_path, runners, s3, monkeypatch, random_seed())


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["s3", "azure", "gcs"])
def test_runs_that_die_on_a_store_that_loses_answers_end_as_undisturbed_ones(
    tmp_path: Path, runners: Runners, name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    server, seed, number = request.getfixturevalue(name), random_seed(), 0
    deadline = time.monotonic() + STORE_SECONDS
    while not number or time.monotonic() < deadline:
        run_on_a_failing_store(tmp_path, runners, server, monkeypatch, seed + number)
        number += 1
    print(f"{number} runs")
