"""The work of a stage's tasks, as a value that travels to any process, and what such a process keeps between epochs.

Spark's workers and the processes beside the driver receive it.
"""

from __future__ import annotations

import functools
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.engine.tables.warm_tables import EpochTables
from airflow_samza.errors import TopicError
from airflow_samza.launch.bindings import bindings_from_json
from airflow_samza.prepare.bound_systems import bind_systems
from airflow_samza.runs.records.epoch_records import InputIntent, Intent
from airflow_samza.runs.records.folders import StageFolder, must_read, read
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.storage.host_files import HostFiles, sweep_host
from airflow_samza.storage.local_store import host_part
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import System
from airflow_samza.task.program.stage_program import ProgramSource, StageProgram

PREPARED = "0.0"
"""The generation of tables that are read beforehand, in no epoch."""


@dataclass(frozen=True)
class StageTask:
    """All that a process needs to run tasks of a stage; small and plain, so that it travels to any worker.

    It must stay small: Spark writes functions of more than a megabyte to disk, and the bindings hold secrets. So intent
    and program are named by their paths. ``inputs``, ``side_inputs`` and ``outputs`` are the streams by their ids, what
    is read without its slices (the intent has those). ``host_dir`` is where each host keeps copies of state (None:
    nowhere, as on the runner's own host the root is near). ``digests`` are those of the tables with a processor that
    hosts may keep. ``code`` is the digest of the callables that the stage runs.
    """

    root: str
    bindings: Mapping[str, Any] = field(repr=False)
    stage: str
    stage_folder: str
    program: str
    inputs: Mapping[str, BoundStream]
    outputs: Mapping[str, BoundStream]
    side_inputs: Mapping[str, BoundStream] = field(default_factory=dict)
    host_dir: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    code: str = ""

    def intent(self, epoch: int) -> Intent:
        """Return the intent of an epoch; a host that does not see what the runner has just written is an error."""
        files, path = open_filesystem(self.root), StageFolder(self.stage_folder).intent(epoch)
        intent = read(files, path, Intent)
        if intent is None:
            raise TopicError(
                f"The Python worker on {platform.node()} does not see the run's records: {files.location(path)} is "
                "missing there.",
                hint="The root has to be one folder that all of Spark's hosts share, under the same path. "
                "If it is: was the run's folder deleted?",
                path=files.location(path),
            )
        return intent

    def tables(self, intent: Intent, task: int) -> EpochTables:
        """Return the tables of a task that side inputs feed, in an epoch."""
        root = open_filesystem(self.root).root
        systems = _systems(json.dumps(self.bindings, sort_keys=True), root)
        program = load_program(self.root, self.program)
        folder = StageFolder(self.stage_folder) if intent.generation != PREPARED else None
        return EpochTables(root, self.program, program, systems, self.side_inputs, intent, task, self.digests, folder)

    def fill_tables(self, task: int, tasks: int, side_inputs: Mapping[str, InputIntent]) -> None:
        """Read what the tables of one of the stage's ``tasks`` shall hold into the folder of this host."""
        self.tables(Intent(self.stage, PREPARED, 0, tasks, {}, {}, side_inputs=side_inputs), task).prepare()

    def host_files(self, task: int) -> HostFiles | None:
        """Return the copies of a task's state on this host; None where hosts keep none."""
        if self.host_dir is None:
            return None
        return task_host_files(self.host_dir, open_filesystem(self.root).root, self.stage_folder, task)


def task_host_files(host_dir: str, root: str, stage_folder: str, task: int) -> HostFiles:
    """Return the copies of a task's state on this host.

    ``$NAME`` in the folder's name is a variable of the host's environment; "": the default.
    """
    folder = os.path.dirname(host_part("state", host_dir))
    _sweep_once(folder)
    return HostFiles(folder, root, f"{stage_folder}/{task}")


@functools.lru_cache(maxsize=8)
def _sweep_once(folder: str) -> None:
    sweep_host(folder)


@functools.lru_cache(maxsize=8)
def load_program(root: str, path: str) -> StageProgram:
    """Return the stage's program; it is compiled once per process, which runs many tasks."""
    return must_read(open_filesystem(root), path, ProgramSource).load()


@functools.lru_cache(maxsize=8)
def _systems(bindings: str, root: str) -> Mapping[str, System]:
    return bind_systems(bindings_from_json(json.loads(bindings)), root)
