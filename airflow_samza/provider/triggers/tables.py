"""Triggers of tasks on pushed tables: the end of a push, and readers that have a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
