"""Input range of a table, fixed once: the version, its files, packed into the declared partitions, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.schema import Schema
from airflow_samza.systems.delta.columns import TableColumns
from airflow_samza.systems.delta.features import check_features
from airflow_samza.systems.delta.log import DeltaLog, Segment
from airflow_samza.systems.delta.options import TableOptions
from airflow_samza.systems.delta.planning import TableFile, files_of
from airflow_samza.systems.delta.state import AddedFile, TableState, state_at
from airflow_samza.systems.delta.vectors import DeltaVector
from airflow_samza.systems.delta.versions import chosen_segment
from airflow_samza.systems.files.formats.file_format import InputFile
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.packing import Unit, pack
from airflow_samza.systems.files.slicing import cut_from, time_range, warn_of_few_tasks
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.changes import (
    carried_parts,
    changed_parts,
    changed_range,
    check_comparable,
    not_there,
)
from airflow_samza.systems.tables.slicing import checked_columns, units_of

KIND = "delta"


def table_schema(log: DeltaLog, stream: StreamSpec) -> str:
    """Return the columns of the version that a stream reads, as DDL; a declared schema has to fit them."""
    return _checked(state_and_columns(log, TableOptions.of(stream))[1], log, stream).ddl()


def state_and_columns(log: DeltaLog, options: TableOptions) -> tuple[TableState, TableColumns]:
    """Return the version that a stream reads, and its columns; a table that cannot be read right is rejected."""
    return state_and_columns_at(log, chosen_segment(log, options))


def state_and_columns_at(log: DeltaLog, segment: Segment) -> tuple[TableState, TableColumns]:
    """Return the state of a table at a version, and its columns; what cannot be read right is rejected."""
    state = state_at(log, segment)
    with log.understood("its protocol or metadata"):
        check_features(log, state)
        return state, TableColumns.of(log, state)


def fix_slice(
    log: DeltaLog,
    stream: StreamSpec,
    partitions: int,
    bounds: Sequence[ColumnBound],
    instead: Callable[[TableColumns], Sequence[AddedFile]] | None = None,
) -> dict[str, Any]:
    """Return the input range of a stream: what of the version ``bounds`` and the data interval leave to be read.

    Files that ``instead`` returns are read in place of those of the version, with its columns.

    Keys beside those of every system: ``table``, ``version``, ``table_id``, ``bytes``, ``rows`` (with deleted ones;
    None: not known), ``schema`` (DDL, when none is declared), ``columns`` (as those of Iceberg), ``by_id`` (they have
    field ids), ``files`` (with paths below the table's folder), ``deletes`` (deletion vectors), and ``splits``: per
    partition [file, start, end] in row groups.
    """
    state, columns = state_and_columns(log, TableOptions.of(stream))
    with log.understood("what it says of files"):
        added = state.files if instead is None else instead(columns)
        files = files_of(log, added, columns, bounds, time_range(stream))
    total = sum(file.size for file in files)
    warn_of_few_tasks(stream, partitions, total)
    units = cut_units(log, files, cut_from(total, partitions))
    return {
        **described_range(log, stream, state, columns, files),
        "partitions": partitions,
        "offsets": None,
        "splits": [[list(split) for split in splits] for splits in pack(units, partitions)],
    }


def fix_changes(
    log: DeltaLog, stream: StreamSpec, partitions: int, since: str, remedy: str, *, carried: bool
) -> dict[str, Any]:
    """Return the range of the rows that are in one only of two versions; with ``carried``, in both."""
    state, columns = state_and_columns(log, TableOptions.of(stream))
    former: list[TableFile] = []
    check_comparable((), columns.fields, "the beginning", log.name, remedy)
    if since:
        segment = log.segment(int(since)) if int(since) <= log.newest else None
        if segment is None:
            raise not_there(since, log.name, "version", remedy)
        then, columns_then = state_and_columns_at(log, segment)
        check_comparable(columns_then.fields, columns.fields, f"the version {since}", log.name, remedy)
        with log.understood("what it says of files"):
            former = files_of(log, then.files, columns_then, (), None)
    with log.understood("what it says of files"):
        files = files_of(log, state.files, columns, (), None)
    parts = (carried_parts if carried else changed_parts)(former, files, vectors_of)
    return changed_range(
        parts,
        lambda some: described_range(log, stream, state, columns, some),
        lambda some, threshold: cut_units(log, some, threshold),
        partitions,
        remedy,
    )


def vectors_of(file: TableFile) -> list[DeltaVector]:
    """Return the deletion vector of a file, if it has one."""
    return [file.vector] if file.vector is not None else []


def described_range(
    log: DeltaLog, stream: StreamSpec, state: TableState, columns: TableColumns, files: Sequence[TableFile]
) -> dict[str, Any]:
    """Return the keys of an input range that do not depend on how it is cut into partitions."""
    found = _checked(columns, log, stream)
    deletes = list(dict.fromkeys(file.vector for file in files if file.vector is not None))
    places = {one: place for place, one in enumerate(deletes)}
    rows = [file.rows for file in files]
    return {
        "kind": KIND,
        "table": log.name,
        "version": state.version,
        "table_id": str(state.metadata["id"]),
        "bytes": sum(file.size for file in files),
        "rows": None if None in rows else sum(count or 0 for count in rows),
        "schema": None if stream.schema is not None else found.ddl(),
        "columns": columns.described,
        "by_id": columns.by_id,
        "files": [_described(file, places) for file in files],
        "deletes": [one.plain() for one in deletes],
    }


def cut_units(log: DeltaLog, files: Sequence[TableFile], threshold: int) -> list[Unit]:
    """Return the units of files; those of more bytes than the threshold are cut by row groups."""
    return units_of(files, threshold, lambda file: input_file(log.table, file.path, file.size, log.stream))


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
        lambda wanted, others: f"{did_you_mean(wanted, others)}Its columns are {listed(names)}.",
    )
