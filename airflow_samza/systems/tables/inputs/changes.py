"""Changes between two versions of a table: by which parts of its files their rows differ, and the range of these.

What counts are the files and deletes of the two versions, and not what was committed in between: so a compaction, a
replacement and a table that was put back are all right, as long as the older version can be read. A row that was only
written anew is in a part of each kind; readers cancel such rows out (decision 113). Inputs that read changes take them
commit by commit (decision 115). Incremental pushes fix such ranges by it, of Delta and Iceberg alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.schema import Field, Schema, parse_type
from airflow_samza.systems.files.failures import is_missing
from airflow_samza.systems.files.formats.casts import fits
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.packing import pack
from airflow_samza.systems.files.slicing import cut_from
from airflow_samza.systems.tables.columns import TableField, column_type
from airflow_samza.systems.tables.inputs.change_columns import ADDED, CARRIED, CHANGE, REMOVED
from airflow_samza.systems.tables.inputs.table_version import TableFile, TableVersion


class ChangedPart(NamedTuple):
    """Rows of a data file that share their fate: those that ``only`` names (if any), less those that ``deletes`` names.

    Both are descriptions of deletes, as input ranges have them. With ``feed`` the file is one of a change data feed,
    whose rows say themselves what became of them, and the part has those that are gone, or those that have come.
    """

    file: TableFile
    change: str
    deletes: tuple[dict[str, Any], ...] = ()
    only: tuple[dict[str, Any], ...] = ()
    feed: bool = False


def changed_parts(before: Sequence[TableFile], now: Sequence[TableFile]) -> list[ChangedPart]:
    """Return the parts of files whose rows are in one of two versions only."""
    parts: list[ChangedPart] = []
    former, present = ({file.path: file for file in files} for files in (before, now))
    for path in sorted({*former, *present}):
        old, new = former.get(path), present.get(path)
        of_old, of_new = (() if file is None else _plain(file) for file in (old, new))
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


def carried_parts(before: Sequence[TableFile], now: Sequence[TableFile]) -> list[ChangedPart]:
    """Return the parts of files whose rows are in both versions."""
    former = {file.path: _plain(file) for file in before}
    return [ChangedPart(file, CARRIED, (*former[file.path], *_plain(file))) for file in now if file.path in former]


def _plain(file: TableFile) -> tuple[dict[str, Any], ...]:
    return tuple(one.plain() for one in file.deletes)


def changed_range(version: TableVersion, partitions: int, since: str, remedy: str, *, carried: bool) -> dict[str, Any]:
    """Return the range of the rows that are in one only of two versions; with ``carried``, of those in both.

    It is as one of whole files, with the column :data:`CHANGE` behind others. ``since`` is the older version, "" the
    empty table before the first one; ``remedy`` says what helps where that, or a file, is gone.
    """
    check_comparable((), version, "the beginning", remedy)
    former: list[TableFile] = []
    if since:
        then = version.at(since)
        if then is None:
            raise TopicError(
                f"The changes of the table {version.name} since the {version.word} {since} cannot be read: that "
                f"{version.word} is not there any more.",
                hint=remedy,
                table=version.name,
                **{version.word: since},
            )
        check_comparable(then.columns, version, f"the {version.word} {since}", remedy)
        former = then.files()
    parts = (carried_parts if carried else changed_parts)(former, version.files())
    files = [part.file for part in parts]
    range_ = {**described_parts(parts, version), "remedy": remedy}
    columns = Schema.of(range_["schema"])
    with files_there(range_):
        splits = pack(version.units(files, cut_from(sum(file.size for file in files), partitions)), partitions)
    return {
        **range_,
        "schema": Schema((*columns.fields, Field(CHANGE, parse_type("string")))).ddl(),
        "partitions": partitions,
        "offsets": None,
        "splits": [[list(split) for split in one] for one in splits],
    }


def described_parts(parts: Sequence[ChangedPart], version: TableVersion) -> dict[str, Any]:
    """Return the keys of an input range of parts of files: as those of files, which also say what became of rows."""
    range_ = version.described([part.file for part in parts])
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


def check_comparable(before: Sequence[TableField], version: TableVersion, since: str, remedy: str) -> None:
    """Reject a column that is another one than the column of its name in the older version, or of a type apart."""
    former, table = {column.name: column for column in before}, version.name
    for column in version.columns:
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
