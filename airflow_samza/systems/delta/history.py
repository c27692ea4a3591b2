"""Changes of a Delta table since it was read last, by the actions of the versions in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_samza.errors import StateError
from airflow_samza.systems.delta.options import TableOptions
from airflow_samza.systems.delta.state import AddedFile, TableState, state_at, vector_id
from airflow_samza.systems.delta.table_version import DeltaVersion
from airflow_samza.systems.delta.versions import time_of
from airflow_samza.systems.system import ColumnBound
from airflow_samza.systems.tables.inputs.arrivals import RESET, WHOLE, Commit, TableHistory
from airflow_samza.systems.tables.inputs.change_columns import ADDED, REMOVED
from airflow_samza.systems.tables.inputs.changes import FileChange, file_changes
from airflow_samza.systems.tables.inputs.table_version import TableFile
from airflow_samza.systems.tables.options import REJECT
from airflow_samza.systems.tables.publishing import PRODUCER


class _Changes(NamedTuple):
    """Actions by which a version has changed rows; what only lies elsewhere now, as after a compaction, is none."""

    feed: list[Mapping[str, Any]]
    added: list[AddedFile]
    removed: list[Mapping[str, Any]]
    info: Mapping[str, Any]

    @classmethod
    def of(cls, actions: Iterable[Mapping[str, Any]]) -> _Changes:
        """Return those of the actions of a version, and what it says of itself; added files are in order of paths."""
        found: dict[str, list[Mapping[str, Any]]] = {"cdc": [], "add": [], "remove": [], "commitInfo": []}
        for action in actions:
            for name, those in found.items():
                one = action.get(name)
                if one is not None and (name not in ("add", "remove") or one.get("dataChange", True)):
                    those.append(one)
        added = sorted(map(AddedFile.of, found["add"]), key=lambda file: file.path)
        return cls(found["cdc"], added, found["remove"], (found["commitInfo"] or [{}])[-1])


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
                changes = self._changes(version)
                if not changes.removed:
                    files += self.files_of(changes.added, bounds)
                elif overwrites == REJECT:
                    what = "replaced rows" if changes.added else "deleted rows"
                    raise self.taken_away(version, what, changes.info.get(PRODUCER))
        return files

    def files_until(self, intake: Mapping[str, Any]) -> list[TableFile]:
        """Return the files that versions up to a record have added, as far as the log has them: with rewritten ones."""
        until = int(intake["version"])
        segment = self.log.segment(until)
        added = {file.path: file for file in (state_at(self.log, segment).files if segment is not None else ())}
        with self.log.understood("what it says of files"):
            for version in sorted(version for version in self.log.commits if version <= until):
                for file in self._changes(version).added:
                    added.setdefault(file.path, file)
        return self.files_of(list(added.values()))

    def version_ranges(self, intake: Mapping[str, Any] | None) -> list[tuple[str, str]]:
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
                changes = file_changes([], self._sorted(self._state_at(version).files))
            else:
                changes = self._file_changes(version, _Changes.of(actions))
            time = time_of(self.log, version, actions)
        return Commit(since, until, version, int(time.timestamp() * 1000), changes)

    def _newer(self, since: int) -> range:
        """Return the versions after one, of which all commits have to be there."""
        if since > self.state.version:
            raise self.lost(since, "is not there any more: the table was put back to an older one")
        newer = range(since + 1, self.state.version + 1)
        missing = next((version for version in newer if version not in self.log.commits), None)
        if missing is not None:
            raise self.lost(since, f"cannot be followed: version {missing} has been cleaned up since")
        return newer

    def _changes(self, version: int) -> _Changes:
        return _Changes.of(self.log.actions(self.log.commits[version]))

    def _file_changes(self, version: int, changes: _Changes) -> list[FileChange]:
        if changes.feed:  # what else the commit says of files is the same once more, as the protocol has it
            feed = self._sorted([AddedFile.of(one) for one in changes.feed])
            return [FileChange(file, change, feed=True) for file in feed for change in (REMOVED, ADDED)]
        return file_changes(self._sorted(self._former(changes.removed, version)), self.files_of(changes.added))

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
