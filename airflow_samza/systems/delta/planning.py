"""The data files of a version that may have rows in the range, with what replaces or removes rows of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_samza.errors import TopicError
from airflow_samza.systems.delta.columns import TableColumns
from airflow_samza.systems.delta.log import DeltaLog
from airflow_samza.systems.delta.partition_values import partition_value
from airflow_samza.systems.delta.pruning import Pruning, ValueRange
from airflow_samza.systems.delta.state import AddedFile, count
from airflow_samza.systems.delta.vectors import DeltaVector
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK, TimeRange
from airflow_samza.systems.filesystems.addresses import Folders
from airflow_samza.systems.system import ColumnBound
from airflow_samza.systems.tables.columns import TableField
from airflow_samza.systems.tables.inputs.table_version import TableFile

_UNKNOWN = ValueRange()
_TABLE = Folders([""])
"""The folder of a table, in which the paths of its log begin."""


def files_of(
    log: DeltaLog,
    added: Sequence[AddedFile],
    columns: TableColumns,
    bounds: Sequence[ColumnBound],
    within: TimeRange | None,
    event_time: str | None = None,
) -> list[TableFile]:
    """Return the data files, of those that the log has added, that conditions and data interval do not rule out.

    ``event_time`` is the column whose least value in each file is needed.
    """
    fields = {field.name: field for field in columns.fields}
    return list(_Planned(log, columns, fields, Pruning(bounds, within, fields), event_time).files(added))


class _Planned:
    """Files of one version, as a reader with these bounds gets them."""

    def __init__(
        self,
        log: DeltaLog,
        columns: TableColumns,
        fields: Mapping[str, TableField],
        pruning: Pruning,
        event_time: str | None,
    ) -> None:
        self._log = log
        self._columns = columns
        self._fields = fields
        self._pruning = pruning
        self._parsed: dict[tuple[str, str | None], Any] = {}
        self._event_time = event_time if event_time in fields else None
        needed = pruning.columns | ({self._event_time} if self._event_time is not None else set())
        self._by_statistics = sorted(needed - set(columns.partitions))

    def files(self, added: Sequence[AddedFile]) -> list[TableFile]:
        found = []
        for file in added:
            self._check_path(file.path)
            partition = {name: file.partition.get(self._columns.physical[name]) for name in self._columns.partitions}
            values = {name: self._value(name, text, file) for name, text in partition.items()}
            if not self._pruning.may_have_rows({name: ValueRange.of_value(one) for name, one in values.items()}):
                continue
            stats = self._statistics(file)
            ranges = {
                name: ValueRange.of_statistics(stats, self._columns.physical[name], self._fields[name].type.word)
                for name in self._by_statistics
            }
            if ranges and not self._pruning.may_have_rows(ranges):
                continue
            rows = stats.get("numRecords")
            found.append(
                TableFile(
                    file.path,
                    file.size,
                    count(rows) if rows is not None else None,
                    {name: "null" if values[name] is None else str(text) for name, text in partition.items()},
                    {str(self._fields[name].id): value for name, value in values.items()},
                    self._vectors(file),
                    values.get(self._event_time, ranges.get(self._event_time, _UNKNOWN).low)
                    if self._event_time is not None
                    else None,
                )
            )
        return found

    def _value(self, name: str, text: str | None, file: AddedFile) -> Any:
        key = (name, text)
        if key not in self._parsed:
            try:
                self._parsed[key] = partition_value(text, self._fields[name].type.word)
            except ValueError as error:
                raise self._log.damaged(f"the partition of {file.path} has {name}={text}: {error}") from error
        return self._parsed[key]

    def _statistics(self, file: AddedFile) -> Mapping[str, Any]:
        if not isinstance(file.stats, str):
            return file.stats or {}
        try:
            stats = json.loads(file.stats)
        except ValueError:
            return {}
        return stats if isinstance(stats, dict) else {}

    def _vectors(self, file: AddedFile) -> tuple[DeltaVector, ...]:
        if not file.vector:
            return ()
        try:
            vector = DeltaVector.of_log(file.vector)
        except (KeyError, ValueError) as error:
            raise self._log.damaged(f"the deletion vector of {file.path} cannot be read") from error
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
            f"The table {self._log.name} of stream {self._log.stream!r} has files outside of its folder, as a shallow "
            f"clone has, which are not read here ({path}).",
            hint=f"{READ_BY_SPARK[0].upper()}{READ_BY_SPARK[1:]}, with format delta; or make a deep clone.",
            table=self._log.name,
            stream=self._log.stream,
            file=path,
        )
