"""Changes between two versions of a table: by which rows of its data files they differ, and the range of these.

What counts are the files and deletes of the two versions, and not what was committed in between: so a compaction, a
replacement and a table that was put back are all right, as long as the older version can be read. A row that was only
written anew is removed and added; readers cancel such rows out (decision 113). Inputs that read changes take them
commit by commit (decision 115). Incremental pushes fix such ranges by it, of Delta and Iceberg alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.schema import Field, Schema, parse_type
from airflow_samza.systems.files.failures import is_missing
from airflow_samza.systems.files.formats.casts import fits
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.packing import pack
from airflow_samza.systems.files.slicing import split_threshold
from airflow_samza.systems.tables.columns import TableField, column_type
from airflow_samza.systems.tables.inputs.change_columns import ADDED, CARRIED, CHANGE, REMOVED
from airflow_samza.systems.tables.inputs.table_version import TableFile, TableVersion, plain_deletes


class FileChange(NamedTuple):
    """Rows of a data file that a change has removed, added or carried: those of ``only`` (if any), less ``deletes``.

    Both are deletes as files have them. With ``feed`` the file is one of a change data feed,
    whose rows say themselves what became of them, and these are the removed, or the added ones.
    """

    file: TableFile
    kind: str
    deletes: tuple[Any, ...] = ()
    only: tuple[Any, ...] = ()
    feed: bool = False


def file_changes(before: Sequence[TableFile], now: Sequence[TableFile]) -> list[FileChange]:
    """Return the changes of data files: rows that are in one of two versions only."""
    changes: list[FileChange] = []
    former, present = ({file.path: file for file in files} for files in (before, now))
    for path in sorted({*former, *present}):
        old, new = former.get(path), present.get(path)
        of_old, of_new = (() if file is None else file.deletes for file in (old, new))
        if old is not None and new is not None:
            # A new delete removes rows, and one that was taken back adds them.
            for file, kind, deletes, only in ((old, REMOVED, of_old, of_new), (new, ADDED, of_new, of_old)):
                if lacked := tuple(one for one in only if one not in deletes):
                    changes.append(FileChange(file, kind, deletes, lacked))
        elif old is not None:
            changes.append(FileChange(old, REMOVED, of_old))
        elif new is not None:
            changes.append(FileChange(new, ADDED, of_new))
    return changes


def carried_rows(before: Sequence[TableFile], now: Sequence[TableFile]) -> list[FileChange]:
    """Return the rows of data files that are in both versions."""
    former = {file.path: file.deletes for file in before}
    return [FileChange(file, CARRIED, (*former[file.path], *file.deletes)) for file in now if file.path in former]


def changed_range(version: TableVersion, partitions: int, since: str, remedy: str, *, carried: bool) -> dict[str, Any]:
    """Return the range of the rows that are in one only of two versions; with ``carried``, of those in both.

    It is as one of whole files, with the column :data:`CHANGE` behind others. ``since`` is the older version, "" the
    empty table before the first one; ``remedy`` says what helps where that, or a file, is gone.
    """
    then = version.at(since) if since else None
    if since and then is None:
        raise TopicError(
            f"The changes of the table {version.name} since the {version.word} {since} cannot be read: that "
            f"{version.word} is not there any more.",
            hint=remedy,
            table=version.name,
            **{version.word: since},
        )
    began = f"the {version.word} {since}" if since else "the beginning"
    check_comparable(then.columns if then is not None else (), version, began, remedy)
    former = then.files() if then is not None else []
    changes = (carried_rows if carried else file_changes)(former, version.files())
    files = [change.file for change in changes]
    range_ = {**described_changes(changes, version), "remedy": remedy}
    columns = Schema.of(range_["schema"])
    with reporting_missing_files(range_):
        splits = pack(version.units(files, split_threshold(sum(file.size for file in files), partitions)), partitions)
    return {
        **range_,
        "schema": Schema((*columns.fields, Field(CHANGE, parse_type("string")))).ddl(),
        "partitions": partitions,
        "offsets": None,
        "splits": [[list(split) for split in one] for one in splits],
    }


def described_changes(changes: Sequence[FileChange], version: TableVersion) -> dict[str, Any]:
    """Return the keys of an input range of changes: as those of data files, which also say what became of rows."""
    range_ = version.described([change.file for change in changes])
    deletes = list(dict.fromkeys(one for change in changes for one in (*change.deletes, *change.only)))
    indexes = {one: index for index, one in enumerate(deletes)}
    for listed, change in zip(range_["files"], changes, strict=True):
        listed["change"] = change.kind
        if change.feed:
            listed["feed"] = True
        listed["deletes"] = [indexes[one] for one in change.deletes]
        listed["only"] = [indexes[one] for one in change.only]
    return {**range_, "deletes": list(map(plain_deletes, deletes))}


@contextmanager
def reporting_missing_files(range_: Mapping[str, Any]) -> Iterator[None]:
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
