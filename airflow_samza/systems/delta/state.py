"""The state of a Delta table at a version: its protocol, its metadata, and its files, from checkpoint and commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.systems.delta.log import FOLDER, SIDECARS, DeltaLog, LogFile, Segment
from airflow_samza.systems.files.formats.file_format import reading

_OF_FILES = ("path", "partitionValues", "size", "stats", "deletionVector")
_STATISTICS = "stats_parsed"


def count(value: Any) -> int:
    """Return a number of bytes or rows; one that none can be is a ``ValueError``."""
    number = int(value)
    if not 0 <= number < 1 << 62:
        raise ValueError(f"{value} is no count")
    return number


class AddedFile(NamedTuple):
    """Data file of a version: its path below the table's folder, and what the log says of it.

    ``partition`` are the values of its partition as the log writes them, ``stats`` its statistics, as JSON or read.
    """

    path: str
    size: int
    partition: Mapping[str, str | None]
    stats: str | Mapping[str, Any] | None
    vector: Mapping[str, Any] | None

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> AddedFile:
        """Return the file that an action ``add`` describes."""
        return cls(
            unquote(action["path"]),
            count(action["size"]),
            dict(action.get("partitionValues") or {}),
            action.get("stats") or action.get(_STATISTICS),
            action.get("deletionVector"),
        )


class TableState:
    """State of a table at one version; later actions change what earlier ones have said."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.protocol: Mapping[str, Any] = {}
        self.metadata: Mapping[str, Any] = {}
        self._files: dict[tuple[str, str | None], AddedFile] = {}

    @property
    def files(self) -> list[AddedFile]:
        """The files of this version, by path."""
        return sorted(self._files.values(), key=lambda file: file.path)

    @property
    def configuration(self) -> Mapping[str, str]:
        """The properties of the table."""
        return dict(self.metadata.get("configuration") or {})

    def add(self, files: Iterable[AddedFile]) -> None:
        """Take files in."""
        for file in files:
            self._files[file.path, vector_id(file.vector)] = file

    def apply(self, action: Mapping[str, Any]) -> None:
        """Take an action of a commit in; those that say nothing about reading are left out."""
        if action.get("add") is not None:
            self.add([AddedFile.of(action["add"])])
        elif action.get("remove") is not None:
            removed = action["remove"]
            self._files.pop((unquote(removed["path"]), vector_id(removed.get("deletionVector"))), None)
        elif action.get("metaData") is not None:
            self.metadata = dict(action["metaData"])
        elif action.get("protocol") is not None:
            protocol = action["protocol"]
            self.protocol = {**protocol, "minReaderVersion": int(protocol["minReaderVersion"])}


def vector_id(vector: Mapping[str, Any] | None) -> str | None:
    """Return the name of a deletion vector, by which files of the same path differ."""
    if not vector:
        return None
    offset = vector.get("offset")
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{'' if offset is None else f'@{offset}'}"


def state_at(log: DeltaLog, segment: Segment) -> TableState:
    """Return the state of a table at a version."""
    state = TableState(segment.version)
    for file in segment.checkpoint:
        with log.understood(_action_of(file)):
            sidecars = _apply_checkpoint(log, file, state)
        for name, size in sidecars:
            sidecar = LogFile((log.table / FOLDER / SIDECARS / name).path, size, None)
            with log.understood(_action_of(sidecar)):
                _apply_checkpoint(log, sidecar, state)
    for file in segment.commits:
        with log.understood(_action_of(file)):
            for action in log.actions(file):
                state.apply(action)
    if not state.protocol or not state.metadata:
        raise log.damaged(f"version {segment.version} has no {'metaData' if state.protocol else 'protocol'}")
    return state


def _action_of(file: LogFile) -> str:
    return f"an action of {file.path.rpartition('/')[2]}"


def _apply_checkpoint(log: DeltaLog, file: LogFile, state: TableState) -> list[tuple[str, int]]:
    """Take a file of a checkpoint in; return the names and sizes of files that have the rest of it."""
    sidecars: list[tuple[str, int]] = []
    for action in log.actions(file) if file.path.endswith(".json") else _parquet_actions(log, file, state):
        if action.get("sidecar"):
            name = unquote(action["sidecar"]["path"])
            if "/" in name:
                raise log.damaged(f"the checkpoint {file.path.rpartition('/')[2]} names a file elsewhere: {name}")
            sidecars.append((name, int(action["sidecar"]["sizeInBytes"])))
        else:
            state.apply(action)
    return sidecars


def _parquet_actions(log: DeltaLog, file: LogFile, state: TableState) -> Iterator[Mapping[str, Any]]:
    """Yield the few actions of a checkpoint that are not about data files; those are taken in as columns."""
    opened = log.opened(file)
    with reading(opened, "a checkpoint of Delta"), opened.random_access() as source:
        parquet = pq.ParquetFile(source)
        fields = set(parquet.schema_arrow.names)
        of_files = set()
        if "add" in fields:
            of_files = {field.name for field in parquet.schema_arrow.field("add").type}
        names = [f"add.{name}" for name in _OF_FILES if name in of_files]
        if "stats" not in of_files and _STATISTICS in of_files:
            names.append(f"add.{_STATISTICS}")
        others = [name for name in ("protocol", "metaData", "sidecar") if name in fields]
        for group in range(parquet.num_row_groups):
            table = parquet.read_row_group(group, columns=[*names, *others])
            if names:
                state.add(_added(table.column("add")))
            for name in others:
                column = table.column(name)
                for value in column.drop_null().to_pylist():
                    yield {name: _plain(value)}


def _added(column: pa.ChunkedArray) -> Iterator[AddedFile]:
    for chunk in column.chunks:
        added = chunk.drop_null()
        values = {field.name: added.field(place).to_pylist() for place, field in enumerate(added.type)}
        none = [None] * len(added)
        stats = values.get("stats") or values.get(_STATISTICS) or none
        for path, size, partition, one, vector in zip(
            values["path"],
            values["size"],
            values.get("partitionValues", none),
            stats,
            values.get("deletionVector", none),
            strict=True,
        ):
            yield AddedFile(unquote(path), count(size), dict(partition or ()), one, vector)


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """Return an action of a checkpoint as a commit has it: maps come as pairs."""
    if "configuration" in value:
        value["configuration"] = dict(value["configuration"] or ())
    return value
