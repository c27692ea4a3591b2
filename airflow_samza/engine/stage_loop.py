"""A stage that runs epoch after epoch: look what is available, decide, run the tasks, commit, publish, go on.

It ends when all tasks have ended, by the ends that come to them in band or that a drain, a stop or the plan gave their
inputs. An attempt that starts it again goes on at the open epoch: its intent, the manifests that are there, its commit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing

from airflow_samza.config import Config
from airflow_samza.engine.available_inputs import AvailableInputs, TaskPosition, lag, most_messages
from airflow_samza.engine.producers import Producers
from airflow_samza.engine.stage_context import StageContext, reject_stopped
from airflow_samza.engine.stage_engine import RunningStage, StageEngine
from airflow_samza.engine.tables.followed_tables import FollowedTables
from airflow_samza.errors import StageError
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.finish import finish_epoch
from airflow_samza.runs.records.epoch_records import (
    Commit,
    InputIntent,
    Intent,
    Manifest,
    StageStart,
    TaskLeft,
    ended_tasks,
    newest_intent,
    read_commit,
    read_manifest,
    read_manifests,
)
from airflow_samza.runs.records.folders import StageFolder, adopt, must_read
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.runs.stages.pruning import prune_epochs, state_folders, sweep_state
from airflow_samza.runs.stages.run_ends import is_ending
from airflow_samza.runs.stages.stage_state import StageProgress, restored_bytes
from airflow_samza.systems.capabilities import FixesOutputs
from airflow_samza.systems.filesystems.pace import FREE, Looks, Pace

DEFAULT_MAX_MESSAGES = 1_000_000
"""Of a task in an epoch, unless configured: some tenths of a second of work, so that consumers see it soon."""

TABLE_SECONDS = 1.0
"""Seconds between the beginnings of epochs that write a table of a lake, where each is a commit and files."""

CLOCK_SECONDS = 1.0
"""Seconds between epochs without any message, for tasks that follow the clock."""


class StageLoop:
    """One attempt at a stage of several epochs."""

    def __init__(self, engine: StageEngine, context: StageContext) -> None:
        self._engine = engine
        self._context = context
        self._files, self._systems, self._run, self._attempt = (
            context.files,
            context.systems,
            context.run,
            context.attempt,
        )
        handle = context.handle
        self._stage = self._run.plan.stage(handle.stage_id)
        self._folder: StageFolder = handle.folder
        self._limit = DEFAULT_MAX_MESSAGES
        self._open = newest_intent(self._files, self._folder)
        """The epoch that an earlier attempt has left open, until it is done."""
        self._former = self._open
        self._commit: Commit | None = None
        self._manifests: dict[int, Manifest] = {}
        self._state: list[set[str]] = [set()]
        """The state folders that the last epochs' manifests name, newest last."""
        self._ran_at = time.monotonic()
        self._decided_at = self._ran_at
        self._gathering_seconds = 0.0
        self._positions: dict[int, TaskPosition] = {}
        self._producers = Producers(self._files, self._systems, self._run, handle, self._open)

    def run(self) -> None:
        """Run epochs until the last one's manifests are there; finishing it is the caller's."""
        self._wait_for_producers()
        self._load()
        inputs: dict[str, BoundStream] = {stream_id: self._run.stream(stream_id) for stream_id in self._stage.inputs}
        inputs.update(self._producers.streams())
        with self._engine.start_stage(self._context, inputs) as stage:
            spec = stage.setup.program.spec
            config = Config(spec.config)
            self._limit = config.epoch_max_messages or DEFAULT_MAX_MESSAGES
            self._gathering_seconds = self._seconds_between_epochs(config)
            available = AvailableInputs(
                self._files, self._systems, self._run, spec, inputs, self._former, self._positions
            )
            with closing(FollowedTables(self._context, stage, self._former)) as tables:
                while True:
                    intent = self._open or self._decide(stage.setup.outputs, available, tables)
                    self._attempt.watch.start()
                    self._run_tasks(stage, intent)
                    if self._is_over(intent, tables):
                        return
                    self._open = None
                    assert self._commit is not None
                    stage.epoch_committed(intent.epoch, self._commit.standing)
                    reach("after-epoch")

    # -- before the first epoch ----------------------------------------------------------------------------------------

    def _wait_for_producers(self) -> None:
        waiting = Waiting(self._files.pace)
        while (missing := self._producers.bind()) is not None:
            self._attempt.report(StageProgress(waiting_for=missing))
            self._reject_stopped()
            waiting.pause()

    def _load(self) -> None:
        """Load the positions in which the last committed epoch has left the tasks."""
        epoch = self._open.epoch if self._open is not None else 0
        path = self._run.start_of(self._stage.stage_id)
        starts = must_read(self._files, path, StageStart).tasks if path is not None else {}
        for task in range(self._stage.task_count):
            checkpoint = starts.get(task, TaskLeft()).checkpoint
            self._positions[task] = TaskPosition(self._run.plan, self._stage.stage_id, task, checkpoint)
        if self._open is None or epoch == 0:
            return
        self._commit = read_commit(self._files, self._folder, epoch - 1)
        self._take({task: read_manifest(self._files, self._folder, task, e) for task, e in self._open.standing.items()})
        sweep_state(self._files, self._folder, epoch, self._state[-1])

    # -- an epoch ------------------------------------------------------------------------------------------------------

    def _decide(self, outputs: Mapping[str, BoundStream], available: AvailableInputs, tables: FollowedTables) -> Intent:
        """Return the next epoch, as soon as there is something to do in it."""
        waiting = Waiting(self._files.pace)
        while True:
            if available.unended:
                final = is_ending(self._files, self._attempt.handle.run, self._run.generation)
                if final is not None:
                    available.end(final, self._positions.values())
            inputs, side_inputs = available.look(), tables.look(self._former)
            active = self._open_tasks() if self._shuts_down else self._active(inputs)
            if not active and tables.is_behind:
                active = self._open_tasks()  # they fill their tables
            has_work = bool(active) or tables.have_moved(side_inputs, self._former)
            if has_work and self._is_due(inputs):
                break  # without a task the epoch only puts on record what the tables hold, for those who wait for it
            if waiting.is_long:
                if has_work and not available.live and self._producers.have_finished():
                    break
                self._reject_stuck(inputs, available)
                self._reject_stopped()
                self._tell(inputs)
            waiting.pause()
        for task in active:
            self._positions[task].tries(inputs)
        epoch = self._former.epoch + 1 if self._former is not None else 0
        intent = Intent(
            stage=self._stage.stage_id,
            generation=str(self._attempt.handle.generation),
            epoch=epoch,
            tasks=self._stage.task_count,
            inputs=inputs,
            outputs={stream_id: bound.spec.name for stream_id, bound in outputs.items()},
            whole=False,
            active=tuple(active),
            standing=self._commit.standing if self._commit is not None else {},
            limit=self._limit,
            start=self._run.start_of(self._stage.stage_id),
            keeps_state=self._run.keeps_state,
            shut_down=self._shuts_down,
            side_inputs=side_inputs,
        )
        reach("before-intent")
        standing = adopt(self._files, self._folder.intent(epoch), intent)
        reach("after-intent")
        return standing

    def _seconds_between_epochs(self, config: Config) -> float:
        if config.epoch_min_ms is not None:
            return config.epoch_min_ms / 1000
        systems = {self._run.stream(stream_id).system for stream_id in self._stage.outputs}
        return TABLE_SECONDS if any(isinstance(self._systems[system], FixesOutputs) for system in systems) else 0.0

    def _is_due(self, inputs: Mapping[str, InputIntent]) -> bool:
        """Return whether messages have been gathered for long enough since the last epoch began.

        A stage that ends, or has more to read than an epoch of one task takes, does not wait.
        """
        return (
            self._commit is None
            or time.monotonic() - self._decided_at >= self._gathering_seconds
            or self._shuts_down
            or all(read.end is not None for read in inputs.values())
            or lag(self._positions.values(), inputs) >= self._limit
        )

    def _active(self, inputs: Mapping[str, InputIntent]) -> list[int]:
        active = [task for task, position in self._positions.items() if position.has_work(inputs)]
        if not active and time.monotonic() - self._ran_at >= CLOCK_SECONDS:
            active = [task for task in self._open_tasks() if self._positions[task].follows_clock]
        return active

    def _open_tasks(self) -> list[int]:
        return [task for task, position in self._positions.items() if not position.ended]

    @property
    def _shuts_down(self) -> bool:
        """Return whether a task has asked that all end."""
        return any(manifest.shuts_down_all for manifest in self._manifests.values())

    def _run_tasks(self, stage: RunningStage, intent: Intent) -> None:
        self._former, self._decided_at = intent, time.monotonic()
        done = {name.removesuffix(".json") for name in self._files.list(self._folder.manifests(intent.epoch))}
        if not all(str(task) in done for task in intent.running):
            stage.run_epoch(intent, most_messages(self._positions.values(), intent.inputs))
        else:
            reject_stopped(self._files, self._attempt)

    def _is_over(self, intent: Intent, tables: FollowedTables) -> bool:
        """Commit and publish an epoch, unless it is the last one; return whether it is."""
        manifests = read_manifests(self._files, self._folder, intent)
        if len(ended_tasks(manifests, self._commit)) >= intent.tasks:
            return True
        handle = self._attempt.handle
        self._commit, _ = finish_epoch(
            self._files,
            self._systems,
            self._run,
            handle.generation,
            self._folder,
            intent,
            manifests,
            self._commit,
            self._attempt.watch.seconds,
        )
        self._take({manifest.task: manifest for manifest in manifests})
        tables.took(manifests)
        self._ran_at = time.monotonic()
        self._prune(intent.epoch)
        self._tell(intent.inputs)
        return False

    def _take(self, manifests: Mapping[int, Manifest]) -> None:
        for task, manifest in manifests.items():
            self._positions[task].take(manifest)
            self._manifests[task] = manifest
        self._state.append(state_folders(self._folder, self._manifests.values()))

    def _prune(self, epoch: int) -> None:
        """Delete what two newer epochs have replaced: state, and in the long run records."""
        *older, former, newest = self._state
        for unused in set().union(*older) - former - newest:
            self._files.delete_tree(unused)
        self._state = [former, newest]
        if epoch % 10 == 0 and self._commit is not None:
            if not self._run.held(self._stage.stage_id):  # their publication reads the records of all epochs
                prune_epochs(self._files, self._folder, self._commit)
            sweep_state(self._files, self._folder, epoch - 1, former | newest)

    # -- what may stop it ----------------------------------------------------------------------------------------------

    def _reject_stopped(self) -> None:
        reject_stopped(self._files, self._attempt)
        self._producers.reject_lost()

    def _reject_stuck(self, inputs: Mapping[str, InputIntent], available: AvailableInputs) -> None:
        """Reject a stage that waits in vain: its producers have finished, all is read, and tasks have not ended."""
        if available.live or any(position.follows_clock for position in self._positions.values() if not position.ended):
            return
        if not self._producers.have_finished() or self._active(available.look()):
            return
        task, position = next((task, position) for task, position in self._positions.items() if not position.ended)
        unread = position.left(inputs)
        what = f"{unread[0][0]!r}, partition {unread[0][1]}" if unread else "its inputs"
        raise StageError(
            f"The stage {self._stage.stage_id!r} waits for {what} in vain: its producers have finished, and task "
            f"{task} has not ended.",
            hint=(
                "Its chooser waits for a stream that never comes, or a topic was cleaned "
                "up: clear it with its upstream."
            )
            if unread
            else "The topic that it reads holds no end-of-stream: clear it with its upstream.",
            stage=self._stage.stage_id,
            run=self._run.run_id,
        )

    def _tell(self, inputs: Mapping[str, InputIntent]) -> None:
        totals = self._commit.totals if self._commit is not None else None
        self._attempt.report(
            StageProgress(
                epochs=totals.epochs if totals is not None else 0,
                messages=totals.messages if totals is not None else 0,
                written=totals.sent if totals is not None else 0,
                lag=lag(self._positions.values(), inputs),
                restored=restored_bytes(totals.facts) if totals is not None else {},
            )
        )


# A look at the folders of a local root costs some tens of microseconds; what comes soon after something else is seen
# soon.
SHORTEST_SECONDS = 0.01
LONGEST_SECONDS = 0.1

LONG_SECONDS = 0.25


class Waiting:
    """Pauses that grow while nothing comes, at the pace of the storage that is looked at."""

    def __init__(self, pace: Pace = FREE) -> None:
        self._looks = Looks(pace)
        self._pause = SHORTEST_SECONDS
        self._looked = time.monotonic()

    @property
    def is_long(self) -> bool:
        """Return whether it is time again to look at what seldom changes; true once per quarter of a second."""
        now = time.monotonic()
        if now - self._looked < self._looks.pause(LONG_SECONDS):
            return False
        self._looked = now
        return True

    def pause(self) -> None:
        """Sleep for a moment."""
        time.sleep(self._looks.pause(self._pause))
        self._pause = min(self._pause * 1.2, LONGEST_SECONDS)
