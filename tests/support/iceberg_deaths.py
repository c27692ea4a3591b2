"""Publishers of an Iceberg table that die: ``python -m tests.support.iceberg_deaths FOLDER`` forks one per line.

A line is JSON: the output's ``options``, a ``publication`` (producer, generation, epoch, staged) and the ``step`` before
which, or after which, the process kills itself. The answer is a line with the signal by which it ended, or 0.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.update.snapshot import _SnapshotProducer

from airflow_samza.systems.iceberg import publishing
from airflow_samza.systems.system import Publication
from airflow_samza.systems.tables.merging import MergingPublisher
from airflow_samza.systems.tables.staged_files import StagedFiles
from tests.support.iceberg_lake import system_at
from tests.support.table_outputs import output_stream

POINTS: dict[str, tuple[Any, str]] = {
    "load": (publishing, "load_table"),
    "footers": (StagedFiles, "footers"),
    "manifests": (_SnapshotProducer, "_manifests"),
    "manifest list": (_SnapshotProducer, "_commit"),
    "metadata": (MetastoreCatalog, "_write_metadata"),
    "swap": (SqlCatalog, "commit_table"),
    "expiry": (publishing, "expire_snapshots"),
}

STEPS = [f"{when} {point}" for point in POINTS for when in ("before", "after")]
"""Steps at which a publisher dies."""

LANDED = STEPS[STEPS.index("after swap") :]
"""Those of them at which the commit is there."""


def points_of_merges(publisher: type) -> dict[str, tuple[Any, str]]:
    """Return the points of merges by a kind of publisher."""
    return {
        "written": (MergingPublisher, "write_merged"),
        "merged files": (publisher, "merged_files"),
        "rewrite": (publisher, "rewrite"),
    }


def die_at(step: str, points: Mapping[str, tuple[Any, str]]) -> None:
    """Have this process killed at a step; ``again``: at the second time."""
    setattr(*acting_at(step, points, lambda: os.kill(os.getpid(), signal.SIGKILL)))


def acting_at(
    step: str, points: Mapping[str, tuple[Any, str]], act: Callable[[], object]
) -> tuple[Any, str, Callable[..., Any]]:
    """Return what is to be replaced so that something is done at a step: an object, a name and a value."""
    when, _, point = step.removesuffix(" again").partition(" ")
    owner, name = points[point]
    left = [None] if step.endswith(" again") else []
    real: Callable[..., Any] = getattr(owner, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if left:
            left.pop()
            return real(*arguments, **options)
        if when == "before":
            act()
        found = real(*arguments, **options)
        if when == "after":
            act()
        return found

    is_static = isinstance(inspect.getattr_static(owner, name), staticmethod)
    return owner, name, staticmethod(wrapped) if is_static else wrapped


def publish(folder: str, work: Publication, options: dict[str, str]) -> None:
    """Publish to a table of the catalog in a folder."""
    system_at(folder).publish(output_stream(**options), work)


def fork_publishers(
    folder: str,
    publish: Callable[[str, Publication, dict[str, str]], None],
    points: Mapping[str, tuple[Any, str]],
) -> None:
    """Fork a publisher for each line."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            code = 1
            try:
                told = json.loads(line)
                facts = told["publication"]
                staged = {int(task): one for task, one in facts["staged"].items()}
                if told["step"]:
                    die_at(told["step"], points)
                work = Publication(facts["producer"], facts["generation"], facts["epoch"], staged)
                publish(folder, work, told["options"])
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


class Publishers:
    """The process that forks publishers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def publish(self, work: Publication, step: str = "", **options: str) -> int:
        """Publish in a process of its own, which dies at a step; return its exit code, or minus the signal."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        facts = {
            "producer": work.producer,
            "generation": work.generation,
            "epoch": work.epoch,
            "staged": {str(task): one for task, one in work.staged.items()},
        }
        self._process.stdin.write(json.dumps({"options": options, "publication": facts, "step": step}) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def publishers(folder: Path, module: str = "tests.support.iceberg_deaths") -> Iterator[Publishers]:
    """Let publishers of tables in a folder be forked, by a module for a kind of tables."""
    words = [sys.executable, "-m", module, str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Publishers(process)
        assert process.stdin is not None
        process.stdin.close()


if __name__ == "__main__":
    fork_publishers(sys.argv[1], publish, {**POINTS, **points_of_merges(publishing._Publisher)})
