"""Stage runners on record: who drives a run's Spark work, since when, whether alive, and what it was asked to do.

Runners of one run with the same code and static settings share a *key*. Instance n of a key is claimed by
``put_if_absent``, and n + 1 only when n is closed or dead. The race is between runners A and B that find n dead at the
same moment: both claim n + 1, one of them gets it, and the other ends. The launcher and the runner claim here; the
command line, the page and upkeep look.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.errors import ConfigError, RecordUnreadable, StorageFull
from airflow_samza.records import durable, plain
from airflow_samza.runs.records import liveness
from airflow_samza.runs.records.folders import RunFolder, newest, numbers, read_fixed, read_report, write_once
from airflow_samza.runs.records.liveness import SEEN, identity
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.disk_room import SILENT_SECONDS, full_disk
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.pace import Looks

ATTACH_SECONDS = 10.0
"""For how long a runner elsewhere is waited for that is to be asked for work, which gives a sign of life every second.

Where signs are rarer, for three of them.
"""

LOOK_SECONDS = 0.05


@durable("claim of a stage runner", reports=True)
@dataclass(frozen=True)
class Claim:
    """The process that is a stage runner: host, place and id, and when it started and claimed (seconds since 1970).

    ``python`` is the program that it is run by, ``python_version`` its version.
    ``warm``: the warm runner that lends it a Java, and the number of this run there; empty: the Java is its own.
    """

    host: str = ""
    place: str = ""
    pid: int = 0
    started: float = 0.0
    claimed_at: float = 0.0
    python: str = ""
    python_version: str = ""
    warm: str = ""


@durable("heartbeat of a stage runner", reports=True)
@dataclass(frozen=True)
class Heartbeat:
    """A stage runner's last sign of life, and when Spark last answered it (seconds since 1970)."""

    at: float = 0.0
    spark_answered_at: float | None = None


DID_NOT_START = "did not start"
"""Reason of the end of a stage runner whose Spark did not come up."""


@durable("end of a stage runner", reports=True)
@dataclass(frozen=True)
class RunnerEnd:
    """From here on a stage runner accepts no more requests. ``error`` is the JSON form of a ``SamzaError``.

    ``requests`` (by kind) are those to the root that no result of a stage holds.
    """

    why: str = ""
    at: float = 0.0
    error: Mapping[str, Any] | None = None
    requests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RunnerPlace:
    """The stage runner that a request was left to."""

    key: str
    number: int


@durable(
    "request for a stage",
    later={"requested_at": 0.0, "spark_conf": {}, "runner": None, "requests": {}, "reference": "", "code": ""},
)
@dataclass(frozen=True)
class StageRequest:
    """An attempt at a stage that was submitted; ``runner`` None: it needs none, as everything is staged.

    ``spark_conf`` are the settings of Spark for this stage alone. ``requests`` (by kind) are those to the root of the
    process that submits. ``reference`` (``module:attribute``) loads the application; "": as the plan says. ``code`` is
    the digest of the stage's callables; "": it is not known.
    """

    stage: str
    generation: str
    attempt: int
    requested_at: float = 0.0
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    runner: RunnerPlace | None = None
    requests: Mapping[str, int] = field(default_factory=dict)
    reference: str = ""
    code: str = ""


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
        """The path of the record of the process that is this runner."""
        return f"{self.path}/claim.json"

    @property
    def heartbeat(self) -> str:
        """Replaced every second, or as often as fits the storage (``Pace.beat``)."""
        return f"{self.path}/heartbeat.json"

    @property
    def closed(self) -> str:
        """From here on the runner takes no more requests."""
        return f"{self.path}/closed.json"

    def give_up(self, files: Filesystem) -> None:
        """Closes a runner that gives no sign of life.

        Nobody leaves it anything any more, and it finds out, should it wake up.
        """
        write_once(files, self.closed, RunnerEnd("it gave no sign of life", time.time()))

    @property
    def queue(self) -> str:
        """The folder of requests."""
        return f"{self.path}/queue"

    @property
    def spark(self) -> str:
        """The path of the record of where its Spark is seen."""
        return f"{self.path}/spark.json"

    @property
    def log(self) -> str:
        """The path of what the runner prints."""
        return f"{self.path}/runner.log"

    def who(self, files: Filesystem) -> dict[str, Any] | None:
        """The process that has claimed the place, as far as its record can be read; None when nobody has."""
        try:
            claim = read_fixed(files, self.claim, Claim)
        except RecordUnreadable:
            return {}
        return plain(claim) if claim is not None else None

    def heard_at(self, files: Filesystem) -> float:
        """Return when the runner gave its last sign of life (seconds since 1970, its host's clock); 0.0: never."""
        beat = read_report(files, self.heartbeat, Heartbeat)
        if beat is not None and beat.at:
            return beat.at
        with suppress(FileNotFoundError):
            return files.modified(self.heartbeat)  # damaged: then the file's own time says as much
        who = self.who(files)
        if who and who.get("claimed_at"):
            return float(who["claimed_at"])
        with suppress(FileNotFoundError):
            return files.modified(self.claim)
        return 0.0

    def is_alive(self, files: Filesystem) -> bool:
        """Return whether the runner lives, as far as can be said without waiting."""
        who = self.who(files)
        return who is not None and SEEN.is_alive(files.location(self.path), who, self.heard_at(files), files.pace.beat)

    def full_disk(self, files: Filesystem) -> StorageFull | None:
        """Return the error of a full disk that explains the runner's silence, as it was last looked at; else None."""
        silent = SEEN.silent_for(files.location(self.path))
        if silent < max(SILENT_SECONDS, 3 * files.pace.beat):
            return None
        who = self.who(files) or {}
        why = f", and the stage runner ({who.get('host')}, process {who.get('pid')}) can report nothing"
        return full_disk(files, is_here=liveness.process_is_there(who) is not None, why=why)

    def accepts(self, files: Filesystem) -> bool:
        """Return whether a request put into its queue now will be seen, as far as can be said without waiting."""
        return not files.exists(self.closed) and self.was_heard(files)

    def was_heard(self, files: Filesystem) -> bool:
        """Return whether the runner lives, without a look where one within the last heartbeat has shown it.

        A process of this host that has died since then is seen.
        """
        if SEEN.was_heard(files.location(self.path), files.pace.beat):
            return liveness.process_is_there(self.who(files) or {}) is not False
        return self.is_alive(files)

    def gives_sign(self, files: Filesystem) -> bool:
        """Return whether the runner gives a sign of life now; waits for one, for seconds where it is silent.

        To be asked before something is left to a runner: the container of one elsewhere may be gone while its last
        heartbeat is young.

        Raises:
            StorageFull: It can give none on a full disk.
        """
        since, looks, beat = time.monotonic(), Looks(files.pace), files.pace.beat
        while True:
            who = self.who(files)
            if who is None:
                return False
            key = files.location(self.path)
            if SEEN.was_heard(key, beat):
                return liveness.process_is_there(who) is not False
            at = self.heard_at(files)
            if not SEEN.is_alive(key, who, at, beat):
                return False
            if SEEN.is_fresh(key, who, at, beat):
                return True
            full = self.full_disk(files)
            if full is not None:
                raise full
            # One that has only just claimed its place may still fetch the code that it runs.
            patience = max(ATTACH_SECONDS, 3 * beat) if files.exists(self.heartbeat) else liveness.STALE_AFTER_SECONDS
            if liveness.process_is_there(who) is None and time.monotonic() - since > patience:
                return False
            time.sleep(looks.pause(LOOK_SECONDS))


def newest_runner(files: Filesystem, run: RunFolder, key: str) -> RunnerFolder | None:
    """The latest runner of a key that was ever claimed."""

    def claimed(number: int) -> RunnerFolder | None:
        runner = RunnerFolder(run, key, number)
        return runner if runner.who(files) is not None else None

    return newest(files, f"{run.servers}/{key}", claimed)


def all_runners(files: Filesystem, run: RunFolder) -> list[RunnerFolder]:
    """Every runner of a run, of every key."""
    return [
        RunnerFolder(run, key, number)
        for key in files.list(run.servers)
        for number in numbers(files, f"{run.servers}/{key}")
    ]


def existing_processes(files: Filesystem, run: RunFolder) -> Iterator[tuple[str, int]]:
    """Yield host and process id of each runner of a run that lives, or is there and gives no sign of life."""
    for runner in all_runners(files, run):
        who = runner.who(files) or {}
        exists = liveness.process_is_there(who)
        if exists or (exists is None and runner.is_alive(files)):
            yield str(who.get("host")), int(who.get("pid", 0))


def claim_runner(files: Filesystem, run: RunFolder, key: str, warm: str = "") -> RunnerFolder | None:
    """Makes this process the runner of a key; None when a live one is there already, or another was quicker.

    ``warm`` is the warm runner that lends it Java.
    """
    latest = newest_runner(files, run, key)
    if latest is not None and latest.accepts(files):
        return None
    mine = RunnerFolder(run, key, latest.number + 1 if latest else 1)
    python, version = sys.executable, platform.python_version()
    claim = Claim(**identity(), claimed_at=time.time(), python=python, python_version=version, warm=warm)
    return mine if write_once(files, mine.claim, claim) else None


def enqueue(files: Filesystem, runner: RunnerFolder, request: StageRequest) -> None:
    """Asks a runner to run an attempt at a stage."""
    write_once(files, f"{runner.queue}/{request.stage}@{request.generation}@{request.attempt}.json", request)


def is_worked_on(files: Filesystem, run: RunPlan) -> bool:
    """Return whether a stage runner of a run lives: it publishes what is committed."""
    return any(runner.is_alive(files) for runner in all_runners(files, run.folder))


def reject_worked_on(files: Filesystem, run: RunPlan, does: str) -> None:
    """Reject a run of which a stage runner lives; ``does`` is what the runner does."""
    if is_worked_on(files, run):
        raise ConfigError(
            f"A stage runner of the run {run.run_id!r} of {run.application!r} lives, and {does}.",
            hint=f"Wait for it (airflow-samza status), or end it: airflow-samza cancel {run.application} {run.run_id}.",
            key="RUN",
            value=run.run_id,
        )
