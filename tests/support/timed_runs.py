"""Runs in which the rows of the input say how long they take and what befalls the stage, and a plain model of them.

Stages are run by the code of stage runners, in this process, over simulated time: it passes while rows are worked on,
and while nobody works. The clock on the wall may be wrong, and jump; the one that measures is not.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.application.application import stream_application
from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.stage_run import run_stage
from airflow_samza.engine.stage_setup import StageSetup
from airflow_samza.errors import SamzaError, StageCancelled
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records import liveness
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.runs.records.folders import read, replace as put_anew, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerFolder, RunnerPlace, StageRequest
from airflow_samza.runs.stages.stage_state import (
    CANCELLED,
    FAILED,
    RUNNING,
    SUCCEEDED,
    StageHandle,
    ask_to_cancel,
    newest_attempt,
)
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemBinding, SystemStreamPartition
from tests.support.local_engine import LocalEngine, LocalStage

START = 1_767_225_600.0
ROW = "n bigint, seconds double, act string, score double"
PARTITIONS = 3
FIRST, SECOND = "lines", "by-n"
FAILS, DIES, IS_CANCELLED, JUMPS = "fails", "dies", "is cancelled", "jumps"


class Died(BaseException):
    """The process of a stage runner is gone."""


@stream_application("timed")
def timed(app: Any) -> None:
    """Work on each line, with a table beside it, and pass it on."""
    lines = app.input_stream("lines", system="log", schema=ROW, partitions=PARTITIONS, key="n", bounded=True)
    names = app.side_input("names", system="log", schema="n bigint, name string", key="n", partitions=PARTITIONS)
    table = app.table("named", key="n", side_inputs=[names])
    named = lines.map(lambda line: CURRENT[-1].works_on(line), schema=ROW, id="work").join(
        table, how="left", id="named"
    )
    named.partition_by("n", id="by-n").where("n >= 0", id="there").send_to(
        app.output_stream("out", system="log", partitions=PARTITIONS, key="n")
    )


CURRENT: list[World] = []
"""The world in which lines are worked on."""


@dataclass
class Truth:
    """The truth about a generation of the first stage, by plain counting."""

    worked: float = 0.0
    """Seconds for which it was worked on."""
    done: set[int] = field(default_factory=set)
    """The tasks that have nothing more to do."""
    deaths: int = 0
    """Attempts whose process died: of each, what passed after its last sign of life is known to nobody."""
    state: str = "not started"


class DyingStage(LocalStage):
    """A stage whose process is gone when the world says so."""

    def run_epoch(self, intent: Intent, messages: int | None) -> None:
        try:
            super().run_epoch(intent, messages)
        except SamzaError:
            if CURRENT[-1].is_dying:
                raise Died from None
            raise


class DyingEngine(LocalEngine):
    """An engine whose process is gone when the world says so."""

    def stage(self, context: StageContext, setup: StageSetup) -> LocalStage:
        return DyingStage(context, setup)


class World:
    """A root, a run under it, its clocks, and the truth about it."""

    def __init__(self, root: Path) -> None:
        self.now = 1000.0
        """The time that passes, seconds."""
        self.wrong = 0.0
        """The seconds by which clocks on the wall are wrong."""
        self.root = root
        self.files = open_filesystem(str(root))
        self.log = LogSystem("log", SystemBinding("log", {"root": str(root)}))
        self.runtime = SparkRuntime(str(root))
        self.truths: dict[tuple[str, int], Truth] = {}
        self.acts: dict[int, list[str]] = {}
        """Misfortunes of the stage by the line at which they happen, the first time, the second time …"""
        self.lines: dict[int, list[int]] = {}
        """The lines of each partition, in order."""
        self.on_line: Callable[[], None] = lambda: None
        """Called at each line, when it is worked on."""
        self.is_dying = False
        self.run: RunPlan
        self._generation = 1
        self._attempt: AttemptState | None = None
        self._beaten_at = 0.0
        self._runners = 0

    @contextlib.contextmanager
    def clocks(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
        """Have simulated time pass in the body."""
        CURRENT.append(self)
        liveness.SEEN._seen.clear()
        try:
            with monkeypatch.context() as patched:
                patched.setattr(time, "time", lambda: START + self.now + self.wrong)
                patched.setattr(time, "monotonic", lambda: self.now)
                patched.setattr(time, "perf_counter", lambda: self.now)
                patched.setattr(time, "sleep", self.passes)
                yield self
        finally:
            CURRENT.remove(self)

    # -- what is there -------------------------------------------------------------------------------------------------

    def send(self, rows: list[dict[str, Any]], names: int) -> None:
        """Fill the input, and the side input with rows of a table."""
        schema = pa.schema(
            [("n", pa.int64()), ("seconds", pa.float64()), ("act", pa.string()), ("score", pa.float64())]
        )
        self.log.append("lines", pa.Table.from_pylist(rows, schema=schema), key=["n"], partitions=PARTITIONS)
        beside = pa.table({"n": pa.array(range(names), pa.int64()), "name": ["x"] * names})
        self.log.append("names", beside, key=["n"], partitions=PARTITIONS)
        self.lines = self._lines()

    def _lines(self) -> dict[int, list[int]]:
        """Return the lines of each partition, in order."""
        found: dict[int, list[int]] = {}
        metadata = self.log.metadata([StreamSpec("lines")])["lines"]
        with contextlib.closing(self.log.consumer(StreamSpec("lines"))) as consumer:
            for partition, head in enumerate(metadata.head):
                place = SystemStreamPartition("log", "lines", partition)
                for envelope in consumer.read(place, OffsetRange(0, head)):
                    if isinstance(envelope, MessageRun):
                        found.setdefault(partition, []).extend(envelope.batch.column("n").to_pylist())
        return found

    def plan(self, mode: str = "staged", **config: str) -> RunPlan:
        """Plan the run."""
        request = RunRequest("tests.support.timed_runs:timed", "run-1", mode=mode, config=config)
        self.run = self.runtime.prepare(request)
        return self.run

    def handle(self, stage_id: str = FIRST) -> StageHandle:
        """Return the newest generation of a stage, its newest attempt."""
        generation = self._generation if stage_id == FIRST else 1
        handle = StageHandle("timed", "run-1", stage_id, Generation(self.run.generation, generation))
        return replace(handle, attempt=newest_attempt(self.files, handle.folder))

    def truth(self, stage_id: str = FIRST) -> Truth:
        """Return the truth about the newest generation of a stage."""
        return self.truths.setdefault((stage_id, self._generation if stage_id == FIRST else 1), Truth())

    # -- what passes ---------------------------------------------------------------------------------------------------

    def passes(self, seconds: float) -> None:
        """Let time pass; the runner of an attempt that is on gives its signs of life meanwhile, every second."""
        end = self.now + seconds
        while self._attempt is not None and self._beaten_at + 1.0 <= end:
            self.now = self._beaten_at = max(self._beaten_at + 1.0, self.now)
            self._beat(self._attempt)
        self.now = end

    def works_on(self, line: Any) -> Any:
        """Work on a line for its seconds; then what it says may happen."""
        self.passes(line.seconds)
        self.truth().worked += line.seconds
        left = self.acts.get(line.n, [])
        act = left.pop(0) if left else ""
        self.on_line()
        if act not in (FAILS, DIES):
            self.truth().done |= {task for task, lines in self.lines.items() if lines[-1] == line.n}
        if act == JUMPS:
            self.wrong += line.score
        elif act == IS_CANCELLED:
            ask_to_cancel(self.files, self.handle())
        elif act in (FAILS, DIES):
            self.is_dying = act == DIES
            raise ValueError(f"line {line.n} {act}")
        return line

    def clear(self) -> None:
        """Begin the next generation of the first stage."""
        self._generation += 1

    def submit(self, stage_id: str = FIRST) -> AttemptState:
        """Ask a runner for the next attempt at a stage; it begins when :meth:`runs` says so."""
        self._runners += 1
        runner = RunnerFolder(self.handle().run, "key", self._runners)
        write_once(self.files, runner.claim, Claim(**identity(), claimed_at=time.time()))
        handle = self.handle(stage_id)
        handle = replace(handle, attempt=handle.attempt + 1)
        request = StageRequest(
            stage_id, str(handle.generation), handle.attempt, time.time(), runner=RunnerPlace("key", self._runners)
        )
        write_once(self.files, handle.folder.attempt(handle.attempt, "request"), request)
        put_anew(self.files, runner.heartbeat, Heartbeat(time.time()))
        self.truth(stage_id).state = "queued"
        return AttemptState(self.files, handle.run, request)

    def runs(self, attempt: AttemptState) -> None:
        """Run an attempt to its end, as a stage runner does."""
        truth = self.truth(attempt.handle.stage_id)
        truth.state, self._attempt, self._beaten_at = RUNNING, attempt, self.now
        self._beat(attempt)
        try:
            attempt.write_status(RUNNING)
            run_stage(DyingEngine(), self.files, run_bindings(self.run.systems, {}), attempt, {})
            attempt.write_status(SUCCEEDED)
        except StageCancelled:
            attempt.write_status(CANCELLED)
        except SamzaError as error:
            attempt.write_status(FAILED, error)
        except Died:
            truth.deaths += 1
            self._gone(attempt)
        finally:
            self._attempt, self.is_dying = None, False
        truth.state = "lost" if attempt.state == RUNNING else attempt.state

    def _beat(self, attempt: AttemptState) -> None:
        runner = RunnerFolder(attempt.handle.run, "key", self._runners)
        put_anew(self.files, runner.heartbeat, Heartbeat(time.time()))
        if not attempt.is_settled and attempt.has_news:
            attempt.write_status()

    def _gone(self, attempt: AttemptState) -> None:
        """Have the claim of the runner name a process that is not there."""
        runner = RunnerFolder(attempt.handle.run, "key", self._runners)
        claim = read(self.files, runner.claim, Claim)
        assert claim is not None
        self.files.delete(runner.claim)
        write_once(self.files, runner.claim, replace(claim, started=claim.started - 10_000))
