"""Triggers of tasks on tables: the end of a push, readers that have a version of it, a commit of a lake's table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_samza.provider.connections.bindings import find_commit
from airflow_samza.provider.triggers.client_threads import ClientTrigger, Look
from airflow_samza.provider.triggers.runs import RunTrigger
from airflow_samza.runs.progress.progress_log import ProgressLog
from airflow_samza.runs.progress.sensed_runs import Freshness, freshness
from airflow_samza.runs.stages.stage_state import StageHandle, ask_to_cancel, stage_status
from airflow_samza.systems.filesystems.filesystem import Filesystem


@dataclass(kw_only=True, eq=False, repr=False)
class TablePushTrigger(RunTrigger):
    """Waits until a push has ended, in whatever way, and writes its progress to the task's log.

    :param push: The handle of the push, as plain values.
    :param said: The states that the task's log has already.
    """

    push: Mapping[str, Any]
    said: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin to look."""
        super().__post_init__()
        self._handle = StageHandle.from_dict(self.push)
        self._progress = PushLog(lambda line: self.log.info("%s", line), self.said)

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """Return the state of the push, once it has ended."""
        status = stage_status(files, self._handle)
        self._progress.look(self._handle, status)
        self.show_spark(files, self._handle, status)
        return {"state": status.state, "said": self._progress.said} if status.is_final else None

    async def on_kill(self) -> None:
        """Cancel the push: a user marked the task, or cleared it."""
        await self.with_files(lambda files: ask_to_cancel(files, self._handle))


class PushLog(ProgressLog):
    """Logs the progress of a push: its states, and how many of its tasks are done."""

    def __init__(self, tell: Any, said: Mapping[str, str] | None = None) -> None:
        super().__init__(tell, said=said)
        self._done = 0

    def look(self, handle: StageHandle, status: Any) -> None:
        """Record the state of the push; log what is new."""
        super().look(handle, status)
        if status.tasks and status.tasks_done != self._done:
            self._done = status.tasks_done
            self._tell(f"Push: {status.tasks_done} of {status.tasks} tasks have staged their rows")


@dataclass(kw_only=True, eq=False, repr=False)
class TableFreshnessTrigger(RunTrigger):
    """Waits until the running runs of an application read a version of a table, or a newer one.

    :param table: What is waited for, as ``Freshness`` has it.
    """

    table: Mapping[str, Any]

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """Return the readers' versions, once they are new enough; log what is new."""
        readers = freshness(files, Freshness(**self.table))
        self.say(str(readers))
        return {"readers": readers.readers, "version": readers.target} if readers.is_reached else None


@dataclass(kw_only=True, eq=False, repr=False)
class TableCommitTrigger(ClientTrigger):
    """Waits until a table has a commit at or after a point in time, or an error lasts: the task looks again then.

    :param conn_id: The connection of type ``iceberg`` or ``delta``.
    :param table: The table.
    :param branch: The branch of a table of Iceberg; None: its main branch.
    :param at: The point in time, in ISO form with its zone.
    :param poll_interval: Seconds between two checks.
    :param deferred_by: Identity of the process that defers. Default: this process.
    """

    conn_id: str
    table: str
    branch: str | None
    at: str

    def look(self) -> Look:
        """Return the first commit that is late enough."""
        from airflow.sdk import BaseHook

        at = datetime.fromisoformat(self.at)
        commit = find_commit(self.conn_id, BaseHook.get_connection, self.table, self.branch, at)
        if commit is None:
            return Look(f"The table {self.table} has no commit at or after {self.at}.", False)
        version, committed = commit[0], commit[1].isoformat()
        value = {"table": self.table, "version": version, "committed": committed}
        return Look(f"The table {self.table} has version {version}, of {committed}.", True, value)
