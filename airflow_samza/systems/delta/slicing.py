"""Input range of a table, fixed once: the version, its files, packed into the declared partitions, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.schema import Schema
from airflow_samza.systems.delta.columns import TableColumns
from airflow_samza.systems.delta.features import check_features
from airflow_samza.systems.delta.log import DeltaLog
from airflow_samza.systems.delta.options import TableOptions
from airflow_samza.systems.delta.planning import TableFile, files_of
from airflow_samza.systems.delta.state import TableState, state_at
from airflow_samza.systems.delta.vectors import DeltaVector
from airflow_samza.systems.delta.versions import chosen_segment
from airflow_samza.systems.files.formats.file_format import InputFile
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.packing import pack
from airflow_samza.systems.files.slicing import cut_from, time_range, warn_of_few_tasks
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.slicing import checked_columns, units_of

KIND = "delta"


def table_schema(log: DeltaLog, stream: StreamSpec) -> str:
    """Return the columns of the version that a stream reads, as DDL; a declared schema has to fit them."""
    return _checked(_found(log, stream)[1], log, stream).ddl()


def _found(log: DeltaLog, stream: StreamSpec) -> tuple[TableState, TableColumns]:
    """Return the version that a stream reads, and its columns; a table that cannot be read right is rejected."""
    state = state_at(log, chosen_segment(log, TableOptions.of(stream)))
    with log.understood("its protocol or metadata"):
        check_features(log, state)
        return state, TableColumns.of(log, state)


def fix_slice(log: DeltaLog, stream: StreamSpec, partitions: int, bounds: Sequence[ColumnBound]) -> dict[str, Any]:
    """Return the input range of a stream: what of the version ``bounds`` and the data interval leave to be read.

    Keys beside those of every system: ``table``, ``version``, ``bytes``, ``rows`` (with deleted ones; None: not known),
    ``schema`` (DDL, when none is declared), ``columns`` (as those of Iceberg), ``by_id`` (they have field ids),
    ``files`` (with paths below the table's folder), ``deletes`` (deletion vectors), and ``splits``: per partition
    [file, start, end] in row groups.
    """
    state, columns = _found(log, stream)
    found = _checked(columns, log, stream)
    with log.understood("what it says of files"):
        files = files_of(log, state, columns, bounds, time_range(stream))
    total = sum(file.size for file in files)
    warn_of_few_tasks(stream, partitions, total)
    deletes = list(dict.fromkeys(file.vector for file in files if file.vector is not None))
    places = {one: place for place, one in enumerate(deletes)}
    opened = [input_file(log.table, file.path, file.size, stream.name) for file in files]
    units = units_of(opened, cut_from(total, partitions))
    rows = [file.rows for file in files]
    return {
        "kind": KIND,
        "partitions": partitions,
        "offsets": None,
        "table": log.name,
        "version": state.version,
        "bytes": total,
        "rows": None if None in rows else sum(count or 0 for count in rows),
        "schema": None if stream.schema is not None else found.ddl(),
        "columns": columns.described,
        "by_id": columns.by_id,
        "files": [_described(file, places) for file in files],
        "deletes": [one.plain() for one in deletes],
        "splits": [[list(split) for split in splits] for splits in pack(units, partitions)],
    }


def _described(file: TableFile, places: Mapping[DeltaVector, int]) -> dict[str, Any]:
    facts: dict[str, Any] = {"path": file.path, "size": file.size, "rows": file.rows}
    for name in ("partition", "constants"):
        if getattr(file, name):
            facts[name] = getattr(file, name)
    return {**facts, "deletes": [places[file.vector]]} if file.vector is not None else facts


def input_file(table: Location, path: str, size: int, stream: str) -> InputFile:
    """Return a data file, ready to be opened."""
    place = table / path
    return InputFile(place.filesystem, place.path, size, str(place), stream)


def _checked(columns: TableColumns, log: DeltaLog, stream: StreamSpec) -> Schema:
    names = list(columns.physical)
    return checked_columns(
        columns.fields,
        log.name,
        stream,
        lambda wanted: f"{did_you_mean(wanted, names)}Its columns are {listed(names)}.",
    )
