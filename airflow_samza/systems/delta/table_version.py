"""A version of a Delta table as an input reads it, by its log: its columns and its data files.

Tables with features that are not known here are left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import TopicError
from airflow_samza.systems.delta.columns import MAPPED, TableColumns
from airflow_samza.systems.delta.log import DeltaLog
from airflow_samza.systems.delta.partition_values import partition_value
from airflow_samza.systems.delta.reading import DeltaVector
from airflow_samza.systems.delta.state import AddedFile, TableState, count, state_at
from airflow_samza.systems.delta.statistics import Pruning, ValueRange
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK, TimeRange
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.filesystems.addresses import Folders
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.inputs.table_version import TableFile, TableVersion
from airflow_samza.systems.tables.options import WAITING

KIND = "delta"

_UNKNOWN = ValueRange()
_TABLE = Folders([""])
"""The folder of a table, in which the paths of its log begin."""

READ = frozenset({MAPPED, "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of readers that are known here: a table with any other one is rejected, as the protocol demands."""

_WITH_FEATURES = 3
"""Version of the protocol of which readers have a list of features; there is no later one."""


class DeltaVersion(TableVersion):
    """Version of a table; one that cannot be read right is rejected.

    The files that ``added`` returns, if given, are read in place of those of the version. Keys of its input ranges
    beside those of all tables: ``by_id`` (the columns have field ids). Paths of files are those below the table's
    folder.
    """

    kind = KIND
    word = "version"

    def __init__(
        self,
        state: TableState,
        stream: StreamSpec,
        added: Callable[[TableColumns], Sequence[AddedFile]] | None = None,
    ) -> None:
        with state.log.understood("its protocol or metadata"):
            check_features(state)
            self.table_columns = TableColumns.of(state)
            super().__init__(stream, state.log.name, state.table_id, state.version, self.table_columns.fields)
        self.log = state.log
        self.state = state
        self._added = added
        self._fields = {field.name: field for field in self.columns}

    def facts(self) -> dict[str, Any]:
        """Return the columns, and the run of which the rows wait, if it is about these."""
        waiting = {} if self._added is None else {WAITING: dict(self.stream.options)[WAITING]}
        return {"columns": self.table_columns.described, "by_id": self.table_columns.by_id, **waiting}

    def files(self, bounds: Sequence[ColumnBound] = (), within: TimeRange | None = None) -> list[TableFile]:
        """Return the data files that the statistics of the log do not rule out."""
        with self.log.understood("what it says of files"):
            added = self.state.files if self._added is None else self._added(self.table_columns)
        return self.files_of(added, bounds, within)

    def files_of(
        self, added: Sequence[AddedFile], bounds: Sequence[ColumnBound] = (), within: TimeRange | None = None
    ) -> list[TableFile]:
        """Return those of some data files, as this version reads them, that no condition rules out."""
        pruning = Pruning(bounds, within, self._fields)
        needed = pruning.columns.union([self.stream.timestamp or ""]).intersection(self._fields)
        by_statistics = sorted(needed.difference(self.table_columns.partitions))
        with self.log.understood("what it says of files"):
            planned = (self._planned(file, pruning, by_statistics) for file in added)
            return [file for file in planned if file is not None]

    def _planned(self, file: AddedFile, pruning: Pruning, by_statistics: Sequence[str]) -> TableFile | None:
        """Return a data file as it is read; None: by its partition or its statistics no row of it is wanted."""
        self._check_path(file.path)
        physical, event_time = self.table_columns.physical, self.stream.timestamp or ""
        partition = {name: file.partition.get(physical[name]) for name in self.table_columns.partitions}
        values = {name: self._value(name, text, file) for name, text in partition.items()}
        if not pruning.may_have_rows({name: ValueRange.of_value(one) for name, one in values.items()}):
            return None
        stats = file.statistics
        ranges = {
            name: ValueRange.of_statistics(stats, physical[name], self._fields[name].type.word)
            for name in by_statistics
        }
        if ranges and not pruning.may_have_rows(ranges):
            return None
        rows = stats.get("numRecords")
        return TableFile(
            file.path,
            file.size,
            count(rows) if rows is not None else None,
            {name: "null" if values[name] is None else str(text) for name, text in partition.items()},
            {str(self._fields[name].id): value for name, value in values.items()},
            self._vectors(file),
            values.get(event_time, ranges.get(event_time, _UNKNOWN).low),
        )

    def _value(self, name: str, text: str | None, file: AddedFile) -> Any:
        try:
            return partition_value(text, self._fields[name].type.word)
        except ValueError as error:
            raise self.log.damaged(f"the partition of {file.path} has {name}={text}: {error}") from error

    def _vectors(self, file: AddedFile) -> tuple[DeltaVector, ...]:
        if not file.vector:
            return ()
        try:
            vector = DeltaVector.of_log(file.vector)
        except (KeyError, ValueError) as error:
            raise self.log.damaged(f"the deletion vector of {file.path} cannot be read") from error
        if vector is None:
            raise self._elsewhere(str(file.vector["pathOrInlineDv"]))
        if vector.path is not None:
            self._check_path(vector.path)
        return (vector,)

    def _check_path(self, path: str) -> None:
        if not _TABLE.have(path):
            raise self._elsewhere(path)

    def _elsewhere(self, path: str) -> TopicError:
        return TopicError(
            f"The table {self.name} of stream {self.stream.name!r} has files outside of its folder, as a shallow "
            f"clone has, which are not read here ({path}).",
            hint=f"{READ_BY_SPARK[0].upper()}{READ_BY_SPARK[1:]}, with format delta; or make a deep clone.",
            table=self.name,
            stream=self.stream.name,
            file=path,
        )

    def place(self, path: str) -> Location:
        """Return the place of a data file."""
        return self.log.table / path

    def hint(self, name: str, others: Iterable[str]) -> str:
        """Return the columns that there are."""
        return f"{did_you_mean(name, others)}Its columns are {listed(list(self.table_columns.physical))}."

    def at(self, number: int | str) -> DeltaVersion | None:
        """Return another version, with the columns that it had."""
        segment = self.log.segment(int(number)) if int(number) <= self.log.newest else None
        return None if segment is None else DeltaVersion(state_at(self.log, segment), self.stream)


def check_features(state: TableState) -> None:
    """Reject a table that could be read wrongly."""
    least = state.protocol["minReaderVersion"]
    if least > _WITH_FEATURES:
        raise _rejected(state.log, newer_protocol(least), str(least))
    unknown = sorted(set(state.protocol.get("readerFeatures") or ()) - READ)
    if least == _WITH_FEATURES and unknown:
        raise _rejected(state.log, f"has the feature {unknown[0]}", unknown[0])
    provider = (state.metadata.get("format") or {}).get("provider") or "parquet"
    if provider != "parquet":
        raise _rejected(state.log, f"has files of {provider}", provider)


def newer_protocol(least: int) -> str:
    """Return what is to be said of a table that needs a version of the protocol that nobody knows yet."""
    return f"needs version {least} of the protocol of Delta"


def _rejected(log: DeltaLog, what: str, feature: str) -> TopicError:
    return TopicError(
        f"The table {log.name} of stream {log.stream!r} {what}, which is not read here.",
        hint=f"{READ_BY_SPARK[0].upper()}{READ_BY_SPARK[1:]}, with format delta.",
        table=log.name,
        stream=log.stream,
        feature=feature,
    )
