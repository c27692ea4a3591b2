"""The state of a Delta table at a version: protocol, metadata, transactions and files, from checkpoint and commits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.systems.delta.log import FOLDER, SIDECARS, DeltaLog, LogFile, Segment, log_behind
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

    ``partition`` are the values of its partition as the log writes them, ``stats`` its statistics, as JSON or read;
    ``encoded`` is the path as the log has it.
    """

    path: str
    size: int
    partition: Mapping[str, str | None]
    stats: str | Mapping[str, Any] | None
    vector: Mapping[str, Any] | None
    encoded: str = ""

    @property
    def statistics(self) -> Mapping[str, Any]:
        """The statistics as values; none where they are no object of JSON."""
        if not isinstance(self.stats, str):
            return self.stats or {}
        try:
            stats = json.loads(self.stats)
        except ValueError:
            return {}
        return stats if isinstance(stats, dict) else {}

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> AddedFile:
        """Return the file that an action ``add`` describes."""
        return cls(
            unquote(action["path"]),
            count(action["size"]),
            dict(action.get("partitionValues") or {}),
            action.get("stats") or action.get(_STATISTICS),
            action.get("deletionVector"),
            action["path"],
        )


class TableState:
    """State of a table at one version, by its ``log``; later actions change what earlier ones have said.

    ``transactions`` has the newest version that each application has noted.
    """

    def __init__(self, log: DeltaLog, version: int) -> None:
        self.log = log
        self.version = version
        self.protocol: Mapping[str, Any] = {}
        self.metadata: Mapping[str, Any] = {}
        self.transactions: dict[str, int] = {}
        self.unread: list[Callable[[], Iterable[AddedFile]]] = []
        """Files of the checkpoint, which are read when somebody asks for them: most commits do not."""
        self._changes: list[tuple[tuple[str, str | None], AddedFile | None]] = []

    @cached_property
    def files(self) -> list[AddedFile]:
        """The files of this version, by path."""
        files = {(file.path, vector_id(file.vector)): file for read in self.unread for file in read()}
        for key, added in self._changes:
            if added is None:
                files.pop(key, None)
            else:
                files[key] = added
        return sorted(files.values(), key=lambda file: file.path)

    @property
    def table_id(self) -> str:
        """The id that the table got when it was made."""
        return str(self.metadata["id"])

    @property
    def configuration(self) -> Mapping[str, str]:
        """The properties of the table."""
        return dict(self.metadata.get("configuration") or {})

    def copy(self) -> TableState:
        """Return a state that begins as this one, and is to be another one."""
        state = TableState(self.log, self.version)
        state.protocol, state.metadata, state.transactions = self.protocol, self.metadata, dict(self.transactions)
        state.unread, state._changes = list(self.unread), list(self._changes)
        if "files" in self.__dict__:  # they were read
            files = self.files
            state.unread, state._changes = [lambda: files], []
        return state

    def apply(self, action: Mapping[str, Any]) -> None:
        """Take an action of a commit in; those that say nothing about reading are left out."""
        if action.get("add") is not None:
            added = AddedFile.of(action["add"])
            self._changes.append(((added.path, vector_id(added.vector)), added))
        elif action.get("remove") is not None:
            removed = action["remove"]
            self._changes.append(((unquote(removed["path"]), vector_id(removed.get("deletionVector"))), None))
        elif action.get("txn") is not None:
            self.transactions[str(action["txn"]["appId"])] = int(action["txn"]["version"])
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
    state = TableState(log, segment.version)
    for file in segment.checkpoint:
        for name, size in _apply_checkpoint(state, file):
            sidecar = LogFile((log.table / FOLDER / SIDECARS / name).path, size, None)
            _apply_checkpoint(state, sidecar)
    for file in segment.commits:
        _apply_commit(state, file)
    if not state.protocol or not state.metadata.get("id"):
        raise log.damaged(f"version {segment.version} has no {'metaData with an id' if state.protocol else 'protocol'}")
    return state


def advanced(state: TableState) -> TableState | None:
    """Return a table as it is now, by the commits behind a state of it; None: it has to be read from its checkpoint.

    So it is if a newer checkpoint is there, or the log is another one by now.
    """
    log = state.log
    known, now = log.commits.get(state.version), log_behind(log, state.version)
    if known is None or now is None or now.commits.get(state.version) != known:
        return None
    new = range(state.version + 1, now.newest + 1)
    if max(now.checkpoints, default=0) > max(log.checkpoints, default=0) or not all(one in now.commits for one in new):
        return None
    later = state.copy()
    later.log = replace(log, commits={**log.commits, **now.commits})
    later.version = now.newest
    for one in new:
        _apply_commit(later, now.commits[one])
    return later


def newest_state(log: DeltaLog) -> TableState:
    """Return the state of a table at its newest version."""
    segment = log.segment(log.newest)
    if segment is None:
        raise log.without_commits(log.newest)
    return state_at(log, segment)


def _apply_commit(state: TableState, file: LogFile) -> None:
    with state.log.understood(_action_of(file)):
        for action in state.log.actions(file):
            state.apply(action)


def _action_of(file: LogFile) -> str:
    return f"an action of {file.path.rpartition('/')[2]}"


def _apply_checkpoint(state: TableState, file: LogFile) -> list[tuple[str, int]]:
    """Take a file of a checkpoint in; return the names and sizes of files that have the rest of it."""
    log = state.log
    sidecars: list[tuple[str, int]] = []
    with log.understood(_action_of(file)):
        for action in log.actions(file) if file.path.endswith(".json") else _parquet_actions(state, file):
            if action.get("sidecar"):
                name = unquote(action["sidecar"]["path"])
                if "/" in name:
                    raise log.damaged(f"the checkpoint {file.path.rpartition('/')[2]} names a file elsewhere: {name}")
                sidecars.append((name, int(action["sidecar"]["sizeInBytes"])))
            else:
                state.apply(action)
    return sidecars


def _parquet_actions(state: TableState, file: LogFile) -> Iterator[Mapping[str, Any]]:
    """Yield the few actions of a checkpoint that are not about data files; those are read, as columns, when needed."""
    opened = state.log.opened(file)
    with reading(opened, "a checkpoint of Delta"), opened.random_access() as source:
        parquet = pq.ParquetFile(source)
        fields = set(parquet.schema_arrow.names)
        if "add" in fields:
            state.unread.append(partial(_checkpoint_files, state.log, file))
        others = [name for name in ("protocol", "metaData", "txn", "sidecar") if name in fields]
        table = parquet.read(columns=others)
        for name in others:
            for value in table.column(name).drop_null().to_pylist(maps_as_pydicts="lossy"):
                yield {name: value}


def _checkpoint_files(log: DeltaLog, file: LogFile) -> list[AddedFile]:
    """Return the data files that a file of a checkpoint names."""
    opened = log.opened(file)
    with log.understood(_action_of(file)), reading(opened, "a checkpoint of Delta"), opened.random_access() as source:
        parquet = pq.ParquetFile(source)
        of_files = {field.name for field in parquet.schema_arrow.field("add").type}
        names = [f"add.{name}" for name in _OF_FILES if name in of_files]
        if "stats" not in of_files and _STATISTICS in of_files:
            names.append(f"add.{_STATISTICS}")
        groups = (parquet.read_row_group(group, columns=names) for group in range(parquet.num_row_groups))
        return [one for group in groups for one in _added(group.column("add"))]  # of all, Arrow reads no 2 GiB of text


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
            yield AddedFile(unquote(path), count(size), dict(partition or ()), one, vector, path)
