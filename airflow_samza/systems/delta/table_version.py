"""A version of a Delta table as an input reads it: by its log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.systems.delta.columns import TableColumns
from airflow_samza.systems.delta.features import check_features
from airflow_samza.systems.delta.log import DeltaLog
from airflow_samza.systems.delta.planning import files_of
from airflow_samza.systems.delta.state import AddedFile, TableState, state_at
from airflow_samza.systems.files.formats.file_format import InputFile, TimeRange
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.inputs.table_version import TableFile, TableVersion
from airflow_samza.systems.tables.options import WAITING

KIND = "delta"


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
        log: DeltaLog,
        state: TableState,
        stream: StreamSpec,
        added: Callable[[TableColumns], Sequence[AddedFile]] | None = None,
    ) -> None:
        with log.understood("its protocol or metadata"):
            check_features(log, state)
            self.table_columns = TableColumns.of(log, state)
            super().__init__(
                stream, log.name, str(state.metadata["id"]), state.version, tuple(self.table_columns.fields)
            )
        self.log = log
        self.state = state
        self._added = added

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
        """Return some data files as this version reads them."""
        with self.log.understood("what it says of files"):
            return files_of(self.log, added, self.table_columns, bounds, within, self.stream.timestamp)

    def opened(self, file: TableFile) -> InputFile:
        """Return a data file, ready to be opened."""
        return input_file(self.log.table, file.path, file.size, self.stream.name)

    def hint(self, name: str, others: Iterable[str]) -> str:
        """Return the columns that there are."""
        return f"{did_you_mean(name, others)}Its columns are {listed(list(self.table_columns.physical))}."

    def at(self, number: int | str) -> DeltaVersion | None:
        """Return another version, with the columns that it had."""
        segment = self.log.segment(int(number)) if int(number) <= self.log.newest else None
        return None if segment is None else DeltaVersion(self.log, state_at(self.log, segment), self.stream)


def input_file(table: Location, path: str, size: int, stream: str) -> InputFile:
    """Return a data file, ready to be opened."""
    place = table / path
    return InputFile(place.filesystem, place.path, size, str(place), stream)
