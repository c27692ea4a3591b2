"""Changes between two versions of a table: by which parts of its files their rows differ, and the range of these.

What counts are the files and deletes of the two versions, and not what was committed in between: so a compaction, a
replacement and a table that was put back are all right, as long as the older version can be read. A row that was only
written anew is in a part of each kind; readers cancel such rows out (decision 113). Inputs that read changes take them
commit by commit (decision 115).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from airflow_samza.application.descriptors import CHANGE_TYPE
from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.schema import Field, Schema, parse_type
from airflow_samza.systems.files.failures import is_missing
from airflow_samza.systems.files.formats.casts import fits
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.packing import Unit, pack
from airflow_samza.systems.files.slicing import cut_from
from airflow_samza.systems.tables.columns import TableField, column_type

CHANGE, COMMIT, COMMITTED = CHANGE_TYPE, "_commit_version", "_commit_timestamp"
"""The columns of changes: what became of a row, in which commit, and when; a range for a push has the first alone."""

CHANGE_FIELDS = (
    Field(CHANGE, parse_type("string"), nullable=False),
    Field(COMMIT, parse_type("bigint"), nullable=False),
    Field(COMMITTED, parse_type("timestamp"), nullable=False),
)
"""The columns of changes as an input has them."""

CARRIED, REMOVED, ADDED = "carried", "delete", "insert"
"""Its values, in the order in which the rows of a key are resolved. Carried rows are in both versions."""

BEFORE, AFTER = "update_preimage", "update_postimage"
"""Its values for a row before its update and behind it, in a change data feed."""


class _File(Protocol):
    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...


File = TypeVar("File", bound=_File)


class ChangedPart(NamedTuple, Generic[File]):
    """Rows of a data file that share their fate: those that ``only`` names (if any), less those that ``deletes`` names.

    Both are descriptions of deletes, as input ranges have them. With ``feed`` the file is one of a change data feed,
    whose rows say themselves what became of them, and the part has those that are gone, or those that have come.
    """

    file: File
    change: str
    deletes: tuple[dict[str, Any], ...] = ()
    only: tuple[dict[str, Any], ...] = ()
    feed: bool = False


def changed_parts(
    before: Sequence[File], now: Sequence[File], deletes: Callable[[File], Sequence[Any]]
) -> list[ChangedPart[File]]:
    """Return the parts of files whose rows are in one of two versions only."""
    parts: list[ChangedPart[File]] = []
    former, present = ({file.path: file for file in files} for files in (before, now))
    for path in sorted({*former, *present}):
        old, new = former.get(path), present.get(path)
        of_old, of_new = (() if file is None else _plain(deletes(file)) for file in (old, new))
        if old is not None and new is not None:
            # Deletes that came later take rows away, and those that are gone bring rows back.
            for file, change, gone, only in ((old, REMOVED, of_old, of_new), (new, ADDED, of_new, of_old)):
                if lacking := tuple(one for one in only if one not in gone):
                    parts.append(ChangedPart(file, change, gone, lacking))
        elif old is not None:
            parts.append(ChangedPart(old, REMOVED, of_old))
        elif new is not None:
            parts.append(ChangedPart(new, ADDED, of_new))
    return parts


def carried_parts(
    before: Sequence[File], now: Sequence[File], deletes: Callable[[File], Sequence[Any]]
) -> list[ChangedPart[File]]:
    """Return the parts of files whose rows are in both versions."""
    former = {file.path: _plain(deletes(file)) for file in before}
    return [
        ChangedPart(file, CARRIED, (*former[file.path], *_plain(deletes(file)))) for file in now if file.path in former
    ]


def _plain(deletes: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    return tuple(one.plain() for one in deletes)


def changed_range(
    parts: Sequence[ChangedPart[File]],
    described: Callable[[Sequence[File]], dict[str, Any]],
    units: Callable[[Sequence[File], int], list[Unit]],
    partitions: int,
    remedy: str,
) -> dict[str, Any]:
    """Return the input range of changed parts: as one of whole files, with the column :data:`CHANGE` behind others.

    ``described`` and ``units`` are as those of arrivals. ``remedy`` says what helps where a file is gone.
    """
    files = [part.file for part in parts]
    range_ = {**described_parts(parts, described), "remedy": remedy}
    columns = Schema.of(range_["schema"])
    with files_there(range_):
        splits = pack(units(files, cut_from(sum(file.size for file in files), partitions)), partitions)
    return {
        **range_,
        "schema": Schema((*columns.fields, Field(CHANGE, parse_type("string")))).ddl(),
        "partitions": partitions,
        "offsets": None,
        "splits": [[list(split) for split in one] for one in splits],
    }


def described_parts(
    parts: Sequence[ChangedPart[File]], described: Callable[[Sequence[File]], dict[str, Any]]
) -> dict[str, Any]:
    """Return the keys of an input range of parts of files: as those of files, which also say what became of rows."""
    range_ = described([part.file for part in parts])
    deletes: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    for listed, part in zip(range_["files"], parts, strict=True):
        listed["change"] = part.change
        if part.feed:
            listed["feed"] = True
        for name, vectors in (("deletes", part.deletes), ("only", part.only)):
            listed[name] = []
            for one in vectors:
                place = places.setdefault(json.dumps(one, sort_keys=True), len(deletes))
                if place == len(deletes):
                    deletes.append(one)
                listed[name].append(place)
    return {**range_, "deletes": deletes}


@contextmanager
def files_there(range_: Mapping[str, Any]) -> Iterator[None]:
    """Say what helps, by the range's ``remedy``, where one of its files is gone."""
    try:
        yield
    except TopicError as error:
        if error.__cause__ is None or not is_missing(error.__cause__):
            raise
        raise TopicError(error.sentence, hint=range_["remedy"], table=range_["table"]) from error


def check_comparable(
    before: Sequence[TableField], now: Sequence[TableField], since: str, table: str, remedy: str
) -> None:
    """Reject a column that is another one than the column of its name in the older version, or of a type apart."""
    former = {column.name: column for column in before}
    for column in now:
        old = former.get(column.name)
        if column.name.lower() == CHANGE:  # engines of SQL, such as Spark, tell no upper case from lower
            what, helps = (
                f"has the name by which changes are marked ({CHANGE})",
                'Rename the column in the table; or push all rows each time, with mode="full".',
            )
        elif old is not None and not _is_comparable(old, column, table):
            what, helps = "is another one now, or has another type", remedy
        else:
            continue
        raise SchemaError(
            f"The changes of the table {table} since {since} cannot be read: its column {column.name!r} {what}.",
            hint=helps,
            table=table,
            column=column.name,
        )


def _is_comparable(old: TableField, new: TableField, table: str) -> bool:
    if old.id != new.id:
        return False
    if old.type == new.type:
        return True
    if new.type.fields and old.type.word == new.type.word:
        former = {inner.name: inner for inner in old.type.fields}
        return all(
            inner.name in former and _is_comparable(former[inner.name], inner, table) for inner in new.type.fields
        )
    is_wider: bool = fits(column_type(old, table).to_arrow(), column_type(new, table).to_arrow(), FileOptions())
    return is_wider


def not_there(since: str, table: str, word: str, remedy: str) -> TopicError:
    """Return the error of a version, up to which a table was read, that cannot be read any more."""
    return TopicError(
        f"The changes of the table {table} since the {word} {since} cannot be read: that {word} is not there any more.",
        hint=remedy,
        table=table,
        **{word: since},
    )
