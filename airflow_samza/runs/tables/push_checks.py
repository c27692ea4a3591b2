"""Checks of a push before it becomes visible, of its columns, keys, and number of rows; they read and write nothing.

The submission and the tasks of a push check by them, and its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_samza.application.expectations import NOT_NULL, OF_ROWS, ROWS, UNIQUE
from airflow_samza.errors import PushError
from airflow_samza.runs.expectations import Judgement, judged, rows_text
from airflow_samza.runs.records.expectations import DROPPED, FAILED, PASSED, Checked, ExpectationResult, merged
from airflow_samza.runs.tables.push_request import SHRINKS_AT_MOST, STAGE, PushCounts, PushRequest
from airflow_samza.runs.tables.table_version import DELETED, FULL, TableVersion
from airflow_samza.schema import DataType, Schema
from airflow_samza.systems.filesystems.filesystem import Filesystem


def totals_of(request: PushRequest, tasks: Sequence[PushCounts]) -> PushCounts:
    """Return what all tasks of a push have counted together."""
    nulls: Counter[str] = Counter()
    for task in tasks:
        nulls.update(task.nulls)
    return PushCounts(
        rows=sum(task.rows for task in tasks),
        deletes=sum(task.deletes for task in tasks),
        bytes=sum(task.bytes for task in tasks),
        null_keys=sum(task.null_keys for task in tasks),
        duplicates=sum(task.duplicates for task in tasks),
        examples=tuple(example for task in tasks for example in task.examples)[:3],
        nulls=nulls,
        checked=merged(request.expect, (task.checked for task in tasks)),
    )


def column_expressions(request: PushRequest, source: Sequence[str]) -> dict[str, str]:
    """Return SQL of Spark over the columns of a source, by the name of the table's column."""
    columns = _expressions(request, source)
    mark = next((name for name in columns if name.lower() == DELETED), None)  # Spark tells no upper case from lower
    if mark is not None:
        raise PushError(
            f"The push of table {request.table!r} from {request.source_text} has a column {mark!r}, which says "
            "what is deleted.",
            hint=f'Say so, with mode="incremental" and deletes="{mark}", or leave it out: columns=[…].',
            table=request.table,
        )
    return columns


def _expressions(request: PushRequest, source: Sequence[str]) -> dict[str, str]:
    own = {name: quoted(name) for name in source}
    control = {request.deletes, (request.deletes or "").strip("`"), request.latest_by} - {None}
    declared = Schema.of(request.schema).names if request.schema is not None else ()
    if isinstance(request.columns, Mapping):
        return {**{name: own[name] for name in declared if name in own}, **request.columns}
    if request.columns is not None:
        missing = [name for name in request.columns if name not in own]
        if missing:
            raise PushError(
                f"The push of table {request.table!r} takes the column {missing[0]!r}, and {request.source_text} has "
                "none of that name.",
                hint=f"Its columns are {', '.join(source)}.",
                table=request.table,
            )
        return {name: own[name] for name in request.columns}
    return {name: text for name, text in own.items() if name in declared or name not in control}


def quoted(name: str | None) -> str:
    """Return the name of a column in SQL of Spark."""
    return "`" + str(name).replace("`", "``") + "`"


def check_columns(request: PushRequest, source: Schema, table: Schema, *, loose: bool) -> None:
    """Reject a source whose columns are not the table's; all differences at once, each with both sides.

    ``loose``: the format knows no types of its own (CSV, JSON), so a text may become anything.
    """
    missing_keys = [name for name in request.key if name not in table]
    if missing_keys:
        raise PushError(
            f"The key {', '.join(request.key)} of table {request.table!r} is not among its columns: there is no "
            f"{', '.join(missing_keys)}.",
            hint=f"The columns are {', '.join(table.names)}; correct key= where the table is declared.",
            table=request.table,
        )
    said = [
        f"{field.name} is missing (the table has {field.type.ddl()})"
        for field in table.fields
        if field.name not in source
    ]
    said += [
        f"{field.name} ({field.type.ddl()}) is not in the table" for field in source.fields if field.name not in table
    ]
    said += [
        f"{field.name} is {source[field.name].type.ddl()} in the source and {field.type.ddl()} in the table"
        for field in table.fields
        if field.name in source and not fits(source[field.name].type, field.type, loose=loose)
    ]
    if said:
        raise PushError(
            f"The push of table {request.table!r} from {request.source_text} has other columns than the table: "
            f"{'; '.join(said)}.",
            hint=f"Name the columns to take (columns=[…]), or how to make them (columns={{'{table.names[0]}': "
            "'SQL'}), or declare the table as its source is.",
            table=request.table,
            differences="; ".join(said),
        )


def fits(actual: DataType, declared: DataType, *, loose: bool = False) -> bool:
    """Return whether every value of one type is one of the other.

    >>> from airflow_samza.schema import parse_type
    >>> fits(parse_type("int"), parse_type("bigint")), fits(parse_type("bigint"), parse_type("int"))
    (True, False)
    """
    if actual.ddl() == declared.ddl():
        return True
    if loose and (actual.name == "string" or declared.name == "string"):
        return True
    widths = ("tinyint", "smallint", "int", "bigint")
    if actual.is_integer:
        if declared.is_integer:
            return loose or widths.index(actual.name) <= widths.index(declared.name)
        return declared.name in ("float", "double", "decimal")
    if actual.name == "decimal" and declared.name == "decimal":
        return actual.scale <= declared.scale and actual.precision - actual.scale <= declared.precision - declared.scale
    if (
        actual.name == declared.name
        and len(actual.children) == len(declared.children)
        and actual.names == declared.names
    ):
        return bool(actual.children) and all(
            fits(a, d, loose=loose) for a, d in zip(actual.children, declared.children, strict=True)
        )
    pairs = (("float", "double"), ("timestamp", "timestamp_ntz"), ("timestamp_ntz", "timestamp"))
    return (actual.name, declared.name) in pairs or (
        loose and actual.name == "double" and declared.name in ("float", "decimal")
    )


def check_rows(
    files: Filesystem, request: PushRequest, schema: str, totals: PushCounts, current: TableVersion | None
) -> tuple[ExpectationResult, ...]:
    """Return the results of all checks of a push; ``schema`` is the table's (DDL).

    Raises:
        PushError: there are null keys, keys that come twice or nulls where none may be, the push is too small or too
            different from the current version, or does not meet an expectation of the table.
    """
    nulls = totals.null_keys if request.on_null_key == "fail" else 0
    repeated = totals.duplicates if request.on_duplicate == "fail" else 0
    check_keys(f"The push of table {request.table!r}", request.table, request.key, nulls, repeated, totals.examples)
    if totals.nulls:
        said = ", ".join(f"{column} ({rows_text(count)})" for column, count in sorted(totals.nulls.items()))
        raise PushError(
            f"The push of table {request.table!r} has nulls in columns that are declared never null: {said}.",
            hint="Declare them as nullable, or fix the source.",
            table=request.table,
        )
    _check_counts(request, totals, current)
    expected = _expected(files, request, totals, current)
    declared = {each.expectation for each in request.expect}
    own = _own_results(request, schema, totals, current)
    return (*(each for each in own if each.expectation not in declared), *expected)


def _expected(
    files: Filesystem, request: PushRequest, totals: PushCounts, current: TableVersion | None
) -> tuple[ExpectationResult, ...]:
    """Return the results of the expectations of the table; a push that does not meet one is rejected."""
    if not request.expect:
        return ()
    judgement = Judgement(
        files,
        STAGE,
        request.push_id,
        frozenset([request.table]),
        lambda table: totals.rows,
        lambda table: _before(current),
        whole=request.mode == FULL,
        until=datetime.fromisoformat(request.interval[1]).timestamp() if request.interval is not None else None,
    )
    found: list[ExpectationResult] = []
    for each in totals.checked:
        if each.kind == ROWS and request.mode != FULL:
            found += _of_changes(each, totals, current)
        else:
            found += judgement.results([{request.table: [each]}])[request.table]
    failed = [each for each in found if each.outcome == FAILED]
    if failed:
        raise _unmet(request, failed)
    return tuple(found)


def _before(current: TableVersion | None) -> tuple[str, int] | None:
    return (f"version {current.number}", current.base_rows) if current is not None and current.base_rows else None


def _of_changes(one: Checked, totals: PushCounts, current: TableVersion | None) -> list[ExpectationResult]:
    """Return the result of ``rows(change=…)`` of an incremental push, whose changes are that part of the rows at most.

    How many rows the table then has is not known, so that nothing else of it is checked.
    """
    most, before, changes = one.limits.get("change"), _before(current), totals.rows + totals.deletes
    if most is None:
        return []
    found = ""
    if before is not None and changes > most * before[1]:
        found = f"{changes:,} changes, {changes / before[1]:.0%} of the {before[1]:,} rows of {before[0]}"
    return [judged(one, changes, bool(found), found)]


def _unmet(request: PushRequest, failed: Sequence[ExpectationResult]) -> PushError:
    first = failed[0]
    such = f", such as {first.samples[0]}" if first.samples else ""
    others = "; ".join(f"{each.expectation}: {each.found}" for each in failed[1:])
    more = f"; nor does it meet {others}" if others else ""
    drop = ', on_error="drop" leaves such rows out' if first.kind in OF_ROWS else ""
    return PushError(
        f"The push of table {request.table!r} does not meet the expectation {first.expectation}: {first.found}{such}"
        f"{more}; nothing of it becomes visible.",
        hint=f'Correct the source, or the expectation where the table is declared: on_error="warn" pushes all the '
        f"same{drop}.",
        table=request.table,
        expectation=first.expectation,
        failed=first.failed,
    )


def _own_results(
    request: PushRequest, schema: str, totals: PushCounts, current: TableVersion | None
) -> Iterator[ExpectationResult]:
    """Yield the results of the checks that every push has, which it has passed."""
    columns, changed = Schema.of(schema).fields, totals.rows + totals.deletes
    key, keyed = ", ".join(request.key), changed + totals.duplicates
    yield _own(
        f"not_null({key})", NOT_NULL, request.key, keyed + totals.null_keys, totals.null_keys, "whose key is null"
    )
    yield _own(f"unique({key})", UNIQUE, request.key, keyed, totals.duplicates, "whose key comes twice")
    for column in columns:
        if not column.nullable and column.name not in request.key:
            yield _own(f"not_null({column.name})", NOT_NULL, (column.name,), totals.rows)
    if request.least_rows:
        yield _own(f"min_rows={request.least_rows}", ROWS, (), changed)
    most = request.max_change_ratio
    if _before(current) is not None and (request.mode == FULL if most is None else most != float("inf")):
        yield _own("max_change_ratio" if most is None else f"max_change_ratio={most}", ROWS, (), changed)


def _own(
    text: str, kind: str, columns: tuple[str, ...], rows: int, failed: int = 0, said: str = ""
) -> ExpectationResult:
    found = f"{rows_text(failed)} {said}, of {rows:,}" if failed else ""
    return ExpectationResult(text, kind, DROPPED if failed else PASSED, columns, rows, failed, found)


def check_keys(
    what: str,
    table: str,
    key: Sequence[str],
    nulls: int,
    duplicates: int,
    examples: Sequence[Any],
    *,
    otherwise: Sequence[str] = (
        'or leave such rows out: on_null_key="drop".',
        'or say which row stays: on_duplicate="last" with latest_by="<column>", or on_duplicate="any".',
    ),
) -> None:
    """Reject rows without a key, and keys that come twice, of ``what`` fills a table; ``otherwise`` ends the hints."""
    if nulls:
        raise PushError(
            f"{what} has {rows_text(nulls)} whose key ({', '.join(key)}) is null.",
            hint=f"Fix the source, {otherwise[0]}",
            table=table,
            null_keys=nulls,
        )
    if duplicates:
        raise PushError(
            f"{what} has {rows_text(duplicates)} whose key ({', '.join(key)}) came before, such as "
            f"{', '.join(str(example) for example in examples)}.",
            hint=f"Fix the source, {otherwise[1]}",
            table=table,
            duplicates=duplicates,
        )


def _check_counts(request: PushRequest, totals: PushCounts, current: TableVersion | None) -> None:
    changed = totals.rows + totals.deletes
    if changed < request.least_rows:
        raise PushError(
            f"The push of table {request.table!r} has {rows_text(changed)}, and at least {request.least_rows:,} are "
            "asked for (min_rows).",
            hint="Is the source complete? With min_rows=0 an empty push empties the table."
            if request.min_rows is None
            else "If the source is complete, lower min_rows.",
            table=request.table,
            rows=changed,
            min_rows=request.least_rows,
        )
    if current is None or not current.base_rows:
        return
    before, most = current.base_rows, request.max_change_ratio
    if request.mode == FULL:
        change = (totals.rows - before) / before
        too_far = -change > SHRINKS_AT_MOST if most is None else abs(change) > most
        said = (
            f"{rows_text(totals.rows)}, {abs(change):.0%} {'fewer' if change < 0 else 'more'} than the {before:,} of "
            f"version {current.number}"
        )
    else:
        too_far = most is not None and changed / before > most
        said = f"{changed:,} changes, {changed / before:.0%} of the {before:,} rows of version {current.number}"
    if too_far:
        allowed = (
            f"{SHRINKS_AT_MOST:.0%} fewer are"
            if most is None
            else f"{most:.0%} {'more or fewer are' if request.mode == FULL else 'is'}"
        )
        raise PushError(
            f"The push of table {request.table!r} has {said}; at most {allowed} allowed (max_change_ratio).",
            hint="If the source is right, push once with a larger max_change_ratio; inf allows any.",
            table=request.table,
            rows=totals.rows,
            before=before,
        )
