"""Evaluation of expectations in a task: SQL over batches, and partial results that are merged before publication.

Stages evaluate theirs on inputs and outputs, and tasks of pushes on rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.descriptors import ROW_DELETED, ErrorPolicy, Expectation
from airflow_samza.application.expectations import (
    CONDITION,
    FOREIGN_KEY,
    FRESH,
    OF_ROWS,
    UNIQUE,
    check_expected_columns,
)
from airflow_samza.application.rejections import did_you_mean
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.errors import InvalidApplication, SchemaError, UnknownName
from airflow_samza.quoting import are_shown, one_line
from airflow_samza.runs.records.expectations import SAMPLES, Checked
from airflow_samza.schema import Schema
from airflow_samza.storage.key_files import KeyGatherer
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.task.expressions.compiler import UnknownColumn, compile_projection, unknown_columns
from airflow_samza.task.expressions.expression import (
    BOOLEAN,
    EvaluationFailure,
    Expression,
    Frame,
    UnsupportedExpression,
)
from airflow_samza.task.messages.bad_records import BadRecords, halved, lines_of, rows_at
from airflow_samza.task.messages.event_times import micros_or_null
from airflow_samza.task.messages.user_errors import located


def check_expectations(
    location: SourceLocation | None, expectations: Sequence[Expectation], schema: Schema | None, where: str
) -> None:
    """Reject, when a stage is planned, expectations that cannot be evaluated on the columns of a stream."""
    if schema is None:
        return
    check_expected_columns(expectations, schema, where)
    for each in expectations:
        if each.kind == CONDITION:
            _compiled(location, each, schema, where)


def _compiled(location: SourceLocation | None, expectation: Expectation, schema: Schema, where: str) -> Expression:
    """Return a condition as an expression that is true, false or null on each row."""
    text = one_line(expectation.text)
    about = f"The expectation {text} of {where}{located(location)}"
    try:
        (expression,) = compile_projection([f"({expectation.sql}\n) AS holds"], schema).expressions
    except UnknownColumn as unknown:
        raise _unknown(unknown.name, about, schema) from None
    except UnsupportedExpression as unsupported:
        missing = unknown_columns([expectation.sql], schema)
        if missing:
            raise _unknown(missing[0], about, schema) from None
        raise InvalidApplication(
            f"{about} cannot be evaluated on Arrow: {unsupported}.",
            hint="Make a column of it with select before, and expect something of that column.",
            expectation=text,
        ) from None
    except SchemaError as error:
        raise InvalidApplication(f"{about}: {error.sentence}", hint=error.hint, expectation=text) from None
    if expression.type != BOOLEAN:
        raise InvalidApplication(
            f"{about} is of type {expression.type.ddl()}, not boolean.",
            hint="Compare it with something: amount >= 0.",
            expectation=text,
        )
    return expression


def _unknown(name: str, about: str, schema: Schema) -> UnknownName:
    hint = f"{did_you_mean(name, schema.names)}The columns are {', '.join(schema.names)}."
    return UnknownName(f"{about} names the column {name!r}, which is not there.", hint=hint, name=name, column=name)


Find = Callable[[Sequence[pa.Array]], np.ndarray]
"""Looks keys up in a table, a column at a time: the place of each row, or less than 0 where there is none."""


class _Tally:
    """The findings of a task about one expectation."""

    def __init__(self, expectation: Expectation, bad: BadRecords | None) -> None:
        self.expectation = expectation
        self.bad = bad
        self.condition: Expression | None = None
        self.find: Find | None = None
        self.rows = 0
        self.failed = 0
        self.latest: int | None = None
        self.samples: list[str] = []
        self.of_tombstones = True
        """Rows that delete their key have to meet it, too."""
        self.keys = KeyGatherer(expectation.columns) if expectation.kind == UNIQUE else None

    def checked(self) -> Checked:
        one = self.expectation
        return Checked(
            expectation=one.text,
            kind=one.kind,
            action=one.action,
            columns=one.columns,
            limits=dict(one.limits),
            rows=self.rows,
            failed=self.failed,
            latest=self.latest,
            keyed=0 if self.keys is None else self.keys.rows,
            samples=tuple(self.samples),
        )


class Expectations:
    """The expectations of one stream in one task.

    Each batch passes :meth:`kept`. Conditions that drop rows are evaluated on all rows, the others on those that are
    left. ``bad_records`` makes the handler of rows that a policy drops or sends away (None: they are counted only);
    ``finds`` look keys up in the task's tables, by id. A tombstone may have its key alone, so what is expected of rows
    and of unique keys is not expected of it, unless that names its mark. With ``of_changes`` a message without a mark
    is no row, and is left out behind.
    """

    def __init__(
        self,
        location: SourceLocation | None,
        expectations: Sequence[Expectation],
        schema: Schema,
        where: str,
        bad_records: Callable[[ErrorPolicy], BadRecords] | None,
        finds: Mapping[str, Find],
        *,
        of_changes: bool = False,
    ) -> None:
        self._schema = schema
        self._of_changes = of_changes
        self._where = where
        self._names = list(schema.names)
        handlers: dict[str, BadRecords] = {}
        tallies = []
        for each in expectations:
            policy = each.policy
            bad = None
            if policy is not None and bad_records is not None:
                bad = handlers.setdefault(policy.text, bad_records(policy))
            tally = _Tally(each, bad)
            if each.kind == CONDITION:
                tally.condition = _compiled(location, each, schema, where)
            elif each.kind == FOREIGN_KEY:
                tally.find = finds[each.table]
            if ROW_DELETED in schema and schema[ROW_DELETED].type == BOOLEAN:
                tally.of_tombstones = each.kind not in (*OF_ROWS, UNIQUE) or _names(each, ROW_DELETED, schema)
            tallies.append(tally)
        self._tallies = tallies
        self._bad = list(handlers.values())
        self._dropping = [tally for tally in tallies if tally.expectation.policy is not None]
        self._others = [tally for tally in tallies if tally.expectation.policy is None]

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that go on, and count those that do not meet an expectation."""
        if not batch.num_rows:
            return batch
        lost = self.lost(batch)
        if lost is not None:
            batch = batch.filter(pa.array(~lost))
        self.count(batch)
        return batch

    def lost(self, batch: pa.RecordBatch) -> np.ndarray | None:
        """Return which rows are dropped or sent away, as a mask (None: no row), and count them."""
        for bad in self._bad:
            bad.begin(batch)
        lost = np.zeros(batch.num_rows, dtype=bool)
        for tally in self._dropping:
            wrong = self._wrong(tally, batch)
            if wrong is None:
                continue
            places = np.flatnonzero(wrong & ~lost).tolist()
            lost |= wrong
            if places and tally.bad is not None:
                error = f"It does not meet the expectation {tally.expectation.text} of {self._where}."
                tally.bad.reject(rows_at(batch, places), [error] * len(places), places)
        return lost if lost.any() else None

    def count(self, batch: pa.RecordBatch) -> None:
        """Count what expectations that leave no row out find in rows that go on."""
        for tally in self._others:
            self._count(tally, batch)

    def _count(self, tally: _Tally, batch: pa.RecordBatch) -> None:
        if tally.keys is not None:
            present = self._rows_present(tally, batch)
            batch = batch if present is None else batch.filter(pa.array(present))
            tally.rows += batch.num_rows
            tally.keys.add(decoded(batch.select(list(tally.expectation.columns))))
        elif tally.expectation.kind == FRESH:
            (name,) = tally.expectation.columns
            tally.rows += batch.num_rows
            column = decoded(batch.select([name])).column(0)
            latest = pc.max(micros_or_null(column, self._schema[name].type, name)).as_py()
            if latest is not None:
                tally.latest = max(latest // 1000, latest // 1000 if tally.latest is None else tally.latest)
        elif tally.expectation.kind in OF_ROWS:
            self._wrong(tally, batch)
        else:
            tally.rows += batch.num_rows

    def _rows_present(self, tally: _Tally, batch: pa.RecordBatch) -> np.ndarray | None:
        """Return which rows an expectation is about; None: all."""
        if tally.of_tombstones:
            return None
        is_deleted = decoded(batch.select([ROW_DELETED])).column(0).fill_null(self._of_changes)
        return pc.invert(is_deleted).to_numpy(zero_copy_only=False) if is_deleted.true_count else None

    def _wrong(self, tally: _Tally, batch: pa.RecordBatch) -> np.ndarray | None:
        """Return which rows do not meet an expectation (None: all do), and count them."""
        present = self._rows_present(tally, batch)
        if present is None:
            return self._wrong_of(tally, batch)
        among = self._wrong_of(tally, batch.filter(pa.array(present)))
        if among is None:
            return None
        wrong = np.zeros(batch.num_rows, dtype=bool)
        wrong[present] = among
        return wrong

    def _wrong_of(self, tally: _Tally, batch: pa.RecordBatch) -> np.ndarray | None:
        tally.rows += batch.num_rows
        if tally.condition is not None:
            whole = batch if batch.schema.names == self._names else batch.select(self._names)
            wrong = _false_on(tally.condition, whole)
        elif tally.find is not None:
            wrong = _without_row(tally.find, decoded(batch.select(list(tally.expectation.columns))).columns)
        else:
            column = decoded(batch.select(list(tally.expectation.columns))).column(0)
            wrong = None if not column.null_count else column.is_null().to_numpy(zero_copy_only=False)
        if wrong is None:
            return None
        tally.failed += int(np.count_nonzero(wrong))
        if len(tally.samples) < SAMPLES and are_shown():
            places = np.flatnonzero(wrong)[: SAMPLES - len(tally.samples)].tolist()
            tally.samples += map(one_line, lines_of(rows_at(batch, places)))
        return wrong

    @property
    def metrics(self) -> dict[str, float]:
        """Return how many rows were dropped or sent away, by the names under which reports show it."""
        counts: dict[str, float] = {}
        for bad in self._bad:
            for name, value in bad.metrics.items():
                counts[name] = counts.get(name, 0) + value
        return counts

    def checked(self) -> list[Checked]:
        """Return the partial results."""
        return [tally.checked() for tally in self._tallies]

    def gathered(self) -> Iterable[tuple[int, KeyGatherer]]:
        """Yield the keys that were gathered, each with the number of its expectation."""
        for number, tally in enumerate(self._tallies):
            if tally.keys is not None:
                yield number, tally.keys


def _names(expectation: Expectation, column: str, schema: Schema) -> bool:
    """Return whether an expectation is about a column."""
    if expectation.kind != CONDITION:
        return column in expectation.columns
    others = Schema(tuple(field for field in schema.fields if field.name != column))
    try:
        compile_projection([f"({expectation.sql}\n) AS holds"], others)
    except (UnknownColumn, UnsupportedExpression):
        return True
    return False


def _without_row(find: Find, key: Sequence[pa.Array]) -> np.ndarray | None:
    """Return the rows whose key a table lacks; None: there are none. A null in a key refers to no row."""
    wrong: np.ndarray = find(key) < 0
    for column in key:
        if column.null_count:
            wrong &= column.is_valid().to_numpy(zero_copy_only=False)
    return wrong if wrong.any() else None


def _false_on(condition: Expression, batch: pa.RecordBatch) -> np.ndarray | None:
    """Return the rows on which a condition is false, or cannot be evaluated; None: there are none."""
    wrong = np.zeros(batch.num_rows, dtype=bool)

    def holds(part: pa.RecordBatch, first: int) -> pa.Array:
        return condition.array(Frame(part.columns, part.num_rows))

    def cannot_be_evaluated(row: pa.RecordBatch, place: int, error: EvaluationFailure) -> None:
        wrong[place] = True

    for first, held in halved(batch, holds, EvaluationFailure, cannot_be_evaluated):
        if held.false_count:
            is_false = pc.invert(held).fill_null(False)
            wrong[first : first + len(held)] = is_false.to_numpy(zero_copy_only=False)
    return wrong if wrong.any() else None
