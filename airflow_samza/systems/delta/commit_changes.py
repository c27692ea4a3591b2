"""Changes that commits have made to a Delta table: its change data feed where a commit has one, else by its files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_samza.errors import StateError
from airflow_samza.systems.delta.columns import TableColumns
from airflow_samza.systems.delta.log import DeltaLog
from airflow_samza.systems.delta.planning import TableFile, files_of
from airflow_samza.systems.delta.slicing import state_and_columns_at, vectors_of
from airflow_samza.systems.delta.state import AddedFile, TableState, state_at, vector_id
from airflow_samza.systems.delta.versions import time_of
from airflow_samza.systems.tables.arrivals import RESET
from airflow_samza.systems.tables.changed_arrivals import Commit
from airflow_samza.systems.tables.changes import ADDED, REMOVED, ChangedPart, changed_parts, check_comparable


class Commits:
    """Commits of a table, whose changes an input reads with the columns that it has at one of its versions."""

    def __init__(self, log: DeltaLog, state: TableState, columns: TableColumns, event_time: str | None) -> None:
        self._log = log
        self._state = state
        self._columns = columns
        self._event_time = event_time

    def check_comparable(self, since: int) -> None:
        """Reject a column that is another one than the column of its name was in an older version, if that is there."""
        segment = self._log.segment(since)
        if segment is not None:
            former = state_and_columns_at(self._log, segment)[1].fields
            check_comparable(former, self._columns.fields, f"the version {since}", self._log.name, f"To go on, {RESET}")

    def between(self, since: str, until: str) -> Commit:
        """Return the changes of a commit, the version ``until``; of ``since`` "" all rows that there are then."""
        version = int(until)
        with self._log.understood(f"what version {until} says of files"):
            actions = list(self._log.actions(self._log.commits[version])) if since else None
            parts = self._whole(version) if actions is None else self._parts(version, actions)
            time = time_of(self._log, version, actions)
        return Commit(since, until, version, int(time.timestamp() * 1000), parts)

    def _whole(self, version: int) -> list[ChangedPart[TableFile]]:
        state = self._state if version == self._state.version else self._state_at(version)
        return changed_parts([], self._files(state.files), vectors_of)

    def _parts(self, version: int, actions: Iterable[Mapping[str, Any]]) -> list[ChangedPart[TableFile]]:
        feed: list[AddedFile] = []
        added: list[AddedFile] = []
        removed: list[Mapping[str, Any]] = []
        for action in actions:
            if action.get("cdc") is not None:
                feed.append(AddedFile.of(action["cdc"]))
            elif action.get("add") is not None and action["add"].get("dataChange", True):
                added.append(AddedFile.of(action["add"]))
            elif action.get("remove") is not None and action["remove"].get("dataChange", True):
                removed.append(action["remove"])
        if feed:  # what else the commit says of files is the same once more, as the protocol has it
            return [ChangedPart(file, change, feed=True) for file in self._files(feed) for change in (REMOVED, ADDED)]
        return changed_parts(self._files(self._former(removed, version)), self._files(added), vectors_of)

    def _former(self, removed: list[Mapping[str, Any]], version: int) -> list[AddedFile]:
        """Return the files that a commit has taken out; where it does not say enough of them, the state before does."""
        if all(one.get("partitionValues") is not None and one.get("size") is not None for one in removed):
            return [AddedFile.of(one) for one in removed]
        before = {(file.encoded, vector_id(file.vector)): file for file in self._state_at(version - 1).files}
        return [before[one["path"], vector_id(one.get("deletionVector"))] for one in removed]

    def _files(self, added: list[AddedFile]) -> list[TableFile]:
        return files_of(self._log, sorted(added, key=lambda file: file.path), self._columns, (), None, self._event_time)

    def _state_at(self, version: int) -> TableState:
        segment = self._log.segment(version)
        if segment is None:
            raise StateError(
                f"The changes of the table {self._log.name} in version {version + 1} cannot be read (input "
                f"{self._log.stream!r}): the log before it has been cleaned up.",
                hint=f"Keep the log for longer, by the table's property delta.logRetentionDuration. To go on, {RESET}",
                table=self._log.name,
                stream=self._log.stream,
                version=version,
            )
        return state_at(self._log, segment)
