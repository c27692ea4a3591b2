"""Stage runners on record: who drives a run's Spark work, since when, whether alive, and what it was asked to do.

Runners of one run with the same code and static settings share a *key*; instance n of a key is claimed by ``put_if_absent``, so
of two that start at once one gives way, and a successor is claimed only when its predecessor is closed or dead.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.runs.folders import RunFolder, numbers, read, write_once
from airflow_samza.runs.liveness import identity, is_alive
from airflow_samza.systems.filesystem import Filesystem


@dataclass(frozen=True)
class RunnerFolder:
    """The records of one runner: instance ``number`` of ``key``."""

    run: RunFolder
    key: str
    number: int

    @property
    def path(self) -> str:
        """The folder, from the root."""
        return f"{self.run.servers}/{self.key}/{self.number}"

    @property
    def claim(self) -> str:
        """Who this runner is."""
        return f"{self.path}/claim.json"

    @property
    def heartbeat(self) -> str:
        """Replaced every second."""
        return f"{self.path}/heartbeat.json"

    @property
    def closed(self) -> str:
        """From here on the runner takes no more requests."""
        return f"{self.path}/closed.json"

    @property
    def queue(self) -> str:
        """The folder of requests."""
        return f"{self.path}/queue"

    @property
    def log(self) -> str:
        """What the runner prints."""
        return f"{self.path}/runner.log"

    def is_alive(self, files: Filesystem) -> bool:
        """Whether the runner's process lives."""
        claim = read(files, self.claim)
        if claim is None:
            return False
        beat = read(files, self.heartbeat)
        return is_alive(claim, float(beat["at"]) if beat else None)

    def accepts(self, files: Filesystem) -> bool:
        """Whether a request put into its queue now will be seen."""
        return not files.exists(self.closed) and self.is_alive(files)


def newest_runner(files: Filesystem, run: RunFolder, key: str) -> RunnerFolder | None:
    """The latest runner of a key that was ever claimed."""
    known = numbers(files, f"{run.servers}/{key}")
    return RunnerFolder(run, key, known[-1]) if known else None


def all_runners(files: Filesystem, run: RunFolder) -> list[RunnerFolder]:
    """Every runner of a run, of every key."""
    return [RunnerFolder(run, key, number) for key in files.list(run.servers) for number in numbers(files, f"{run.servers}/{key}")]


def claim_runner(files: Filesystem, run: RunFolder, key: str) -> RunnerFolder | None:
    """Makes this process the runner of a key; None when a live one is there already, or another was quicker."""
    latest = newest_runner(files, run, key)
    if latest is not None and latest.accepts(files):
        return None
    mine = RunnerFolder(run, key, latest.number + 1 if latest else 1)
    return mine if write_once(files, mine.claim, {**identity(), "claimed_at": time.time()}) else None


def enqueue(files: Filesystem, runner: RunnerFolder, request: Mapping[str, Any]) -> None:
    """Asks a runner to run an attempt at a stage."""
    write_once(files, f"{runner.queue}/{request['stage']}@{request['generation']}@{request['attempt']}.json", request)
