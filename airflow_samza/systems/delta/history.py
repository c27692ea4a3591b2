"""Changes of a Delta table since it was read last, by the actions of the versions in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_samza.errors import StateError
from airflow_samza.systems.delta.log import DeltaLog
from airflow_samza.systems.delta.options import TableOptions
from airflow_samza.systems.delta.state import AddedFile, TableState, state_at, vector_id
from airflow_samza.systems.delta.table_version import DeltaVersion
from airflow_samza.systems.delta.versions import time_of
from airflow_samza.systems.system import ColumnBound
from airflow_samza.systems.tables.inputs.arrivals import RESET, WHOLE, Commit, TableHistory
from airflow_samza.systems.tables.inputs.change_columns import ADDED, REMOVED
from airflow_samza.systems.tables.inputs.changes import ChangedPart, changed_parts
from airflow_samza.systems.tables.inputs.table_version import TableFile
from airflow_samza.systems.tables.options import REJECT
from airflow_samza.systems.tables.publishing import PRODUCER


class DeltaHistory(DeltaVersion, TableHistory):
    """Version of a table up to which an input is read, and the commits that lead there."""

    keep = (
        "Keep the log for longer than the time between two runs, by the table's property delta.logRetentionDuration, "
        "and files as long, by delta.deletedFileRetentionDuration."
    )

    def appended(self, intake: Mapping[str, Any], bounds: Sequence[ColumnBound]) -> list[TableFile]:
        """Return the files that versions since a record have added, version by version."""
        files: list[TableFile] = []
        overwrites, newer = TableOptions.of(self.stream).overwrites, self._newer(int(intake["version"]))
        with self.log.understood("what it says of files"):
            for version in newer:
                added, removed, info = _changes(self.log, version)
                if not removed:
                    files += self.files_of(added, bounds)
                elif overwrites == REJECT:
                    what = "replaced rows" if added else "deleted rows"
                    raise self.taken_away(version, what, info.get(PRODUCER))
        return files

    def files_until(self, intake: Mapping[str, Any]) -> list[TableFile]:
        """Return the files that versions up to a record have added, as far as the log has them: with rewritten ones."""
        until = int(intake["version"])
        segment = self.log.segment(until)
        added = {file.path: file for file in (state_at(self.log, segment).files if segment is not None else ())}
        with self.log.understood("what it says of files"):
            for version in sorted(version for version in self.log.commits if version <= until):
                for file in _changes(self.log, version)[0]:
                    added.setdefault(file.path, file)
        return self.files_of(list(added.values()))

    def spans(self, intake: Mapping[str, Any] | None) -> list[tuple[str, str]]:
        """Return the versions since a record, each behind the one before it."""
        if intake is None:
            return [(WHOLE, str(self.state.version))]
        return [(str(version - 1), str(version)) for version in self._newer(int(intake["version"]))]

    def commit(self, since: str, until: str) -> Commit:
        """Return the changes of a commit, the version ``until``; of ``since`` :data:`WHOLE` all rows of then."""
        version = int(until)
        with self.log.understood(f"what version {until} says of files"):
            actions = list(self.log.actions(self.log.commits[version])) if since else None
            if actions is None:
                parts = changed_parts([], self._sorted(self._state_at(version).files))
            else:
                parts = self._parts(version, actions)
            time = time_of(self.log, version, actions)
        return Commit(since, until, version, int(time.timestamp() * 1000), parts)

    def _newer(self, since: int) -> range:
        """Return the versions after one, of which all commits have to be there."""
        if since > self.state.version:
            raise self.lost(since, "is not there any more: the table was put back to an older one")
        newer = range(since + 1, self.state.version + 1)
        gone = next((version for version in newer if version not in self.log.commits), None)
        if gone is not None:
            raise self.lost(since, f"cannot be followed: version {gone} has been cleaned up since")
        return newer

    def _parts(self, version: int, actions: Iterable[Mapping[str, Any]]) -> list[ChangedPart]:
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
            return [ChangedPart(file, change, feed=True) for file in self._sorted(feed) for change in (REMOVED, ADDED)]
        return changed_parts(self._sorted(self._former(removed, version)), self._sorted(added))

    def _former(self, removed: list[Mapping[str, Any]], version: int) -> list[AddedFile]:
        """Return the files that a commit has taken out; where it does not say enough of them, the state before does."""
        if all(one.get("partitionValues") is not None and one.get("size") is not None for one in removed):
            return [AddedFile.of(one) for one in removed]
        before = {(file.encoded, vector_id(file.vector)): file for file in self._state_at(version - 1).files}
        return [before[one["path"], vector_id(one.get("deletionVector"))] for one in removed]

    def _sorted(self, added: Sequence[AddedFile]) -> list[TableFile]:
        return self.files_of(sorted(added, key=lambda file: file.path))

    def _state_at(self, version: int) -> TableState:
        if version == self.state.version:
            return self.state
        segment = self.log.segment(version)
        if segment is None:
            raise StateError(
                f"The changes of the table {self.name} in version {version + 1} cannot be read (input "
                f"{self.stream.name!r}): the log before it has been cleaned up.",
                hint=f"Keep the log for longer, by the table's property delta.logRetentionDuration. To go on, {RESET}",
                table=self.name,
                stream=self.stream.name,
                version=version,
            )
        return state_at(self.log, segment)


def _changes(log: DeltaLog, version: int) -> tuple[list[AddedFile], bool, Mapping[str, Any]]:
    """Return the files that a version has added, whether it has taken rows away, and what it says of itself.

    What only lies elsewhere now, as after a compaction, is no change.
    """
    added: list[AddedFile] = []
    removed, info = False, {}
    for action in log.actions(log.commits[version]):
        if action.get("commitInfo") is not None:
            info = action["commitInfo"]
        for name in ("add", "remove"):
            if action.get(name) is not None and action[name].get("dataChange", True):
                if name == "add":
                    added.append(AddedFile.of(action["add"]))
                else:
                    removed = True
    return sorted(added, key=lambda file: file.path), removed, info
