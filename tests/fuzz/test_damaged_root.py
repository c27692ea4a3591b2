"""Any file under the root, damaged in any way.

Every reader goes on or says it in one sentence, and nothing is raised from the depths.

``FUZZ_SECONDS`` says how long to try (8 in each run), ``FUZZ_SEED`` where to begin; a failure names its seed.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.cli.tables_commands import versions_text
from airflow_samza.errors import SamzaError, StageFailed
from airflow_samza.runs.progress.progress import describe_progress
from airflow_samza.runs.progress.run_list import newest_runs, plan_of
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.stage_state import StageHandle, stage_status
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_upkeep import report_state
from airflow_samza.runs.tables import versions as table_versions
from airflow_samza.systems.log.fsck import fsck
from tests.support.damage import SECONDS, damaged
from tests.support.pushes import TOPIC, Pushes
from tests.support.runs_here import Here

COUNTING = "tests.support.carrying_apps:counting"
CLICKS = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


def clicks(here: Here, first: int, count: int) -> None:
    rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(first, first + count)]
    here.log.append("clicks", pa.Table.from_pylist(rows, CLICKS), key=["member"], partitions=2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with runs that have ended, one that is half done, state, topics and versions of a table."""
    root = tmp_path_factory.mktemp("model") / "root"
    here = Here(root)
    for run in range(2):
        clicks(here, run * 5, 5)
        here.whole(COUNTING, f"run-{run}")
    clicks(here, 10, 5)
    here.plan(COUNTING, "run-2")
    pushes = Pushes(root)
    for number in range(2):
        pushes.finish(pushes.stage(pushes.request(f"push-{number}"), {1: "gold", 2: f"{number}"}))
    return root


def readers(here: Here) -> dict[str, Callable[[], object]]:
    """Everything that people and processes do with a root."""
    files = here.log.filesystem

    def runs() -> None:
        for run in newest_runs(files):
            plan_of(files, run)

    def progress() -> None:
        for run in newest_runs(files, "counting"):
            plan = plan_of(files, run)
            for stage in plan.plan.stages:
                handle = StageHandle(run.application, run.run_id, stage.stage_id, Generation(run.generation, 1))
                stage_status(files, handle)
                describe_progress(here.runtime.progress(handle))

    def resume() -> None:
        here.stages(here.plan(COUNTING, "run-2"))

    def versions() -> None:
        found = table_versions.versions(files, "log", TOPIC.name)
        current = table_versions.newest(files, "log", TOPIC.name)
        if current is not None:
            versions_text(found, table_versions.expired_numbers(files, "log", TOPIC.name), current)

    def push() -> None:
        pushes = Pushes(here.root)
        pushes.finish(pushes.stage(pushes.request("push-9"), {3: "silver"}))

    def topics() -> None:
        for name in here.log.topics():
            fsck(here.log.topic(name))
            here.rows(name)

    return {
        "list the runs": runs,
        "show the state": lambda: report_state(files, StateHistory("counting")),
        "show progress": progress,
        "resume a run": resume,
        "plan a further run": lambda: here.whole(COUNTING, "run-3"),
        "list versions of a table": versions,
        "push a table": push,
        "check and read topics": topics,
    }


def rounds(model: Path, folder: Path) -> Iterator[tuple[int, Path, str, Here]]:
    """Roots with one damaged file each, until the time is over: seed, file, and the root."""
    paths = sorted(path.relative_to(model) for path in model.rglob("*") if path.is_file())
    seed = int(os.environ.get("FUZZ_SEED", "1"))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        rng = random.Random(seed)
        path = rng.choice(paths)
        root = folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(model, root)
        before = (root / path).read_bytes()
        after = damaged(before, rng)
        (root / path).write_bytes(after)
        yield seed, path, f"{after[:300]!r}", Here(root)
        seed += 1


def _unexpected(error: BaseException) -> str | None:
    """The exception that nobody meant to raise, with its place; None for a sentence."""
    if isinstance(error, StageFailed) and re.match(r"Task \d+ of the stage", error.sentence):  # it stands for its cause
        return _unexpected(error.__cause__ or error.__context__ or RuntimeError(error.sentence))
    if isinstance(error, SamzaError):
        return None if error.sentence.endswith(".") else f"no sentence: {error.sentence}"
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:200]} ({place.filename}:{place.lineno})"


@pytest.mark.random
@pytest.mark.extended
def test_no_damaged_file_raises_anything_but_a_sentence(model: Path, tmp_path: Path) -> None:
    failures = []
    number = 0
    for seed, path, content, here in rounds(model, tmp_path):
        number += 1
        for what, act in readers(here).items():
            try:
                act()
            except Exception as error:
                if (said := _unexpected(error)) is not None:
                    failures.append(f"seed {seed}: {what}, {path} = {content}: {said}")
    print(f"{number} damaged files")
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures[:40])
