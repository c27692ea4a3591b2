"""The window operator against a model in plain Python: random windows, messages, batches, watermarks and epochs.

The same rows in order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import (
    approx_count_distinct,
    avg,
    collect,
    count,
    count_distinct,
    first,
    hopping,
    last,
    max_,
    min_,
    session,
    stream_application,
    sum_,
    tumbling,
)
from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.application.windows import Aggregation, WindowSpec
from airflow_samza.row import Row
from airflow_samza.schema import Schema
from airflow_samza.task.operators.windows.window import Window
from tests.support.budgets import extended_but
from tests.support.window_model import WindowModel, aggregated

INPUT = Schema.of("k string, at timestamp, x bigint")
BEGIN = 1_767_225_600_000_000

IN_ORDER = ("first", "last", "all")

Aggregations = Mapping[str, Aggregation]

AGGREGATIONS = {
    "n": count(),
    "known": count("x"),
    "total": sum_("x"),
    "least": min_("x"),
    "most": max_("x"),
    "mean": avg("x"),
    "first": first("x"),
    "last": last("x"),
    "distinct": count_distinct("x"),
    "about": approx_count_distinct("x"),
    "all": collect("x"),
}

Message = tuple[str | None, int | None, int | None]


def listed(former: Row | None, message: Row) -> Row:
    """A fold that keeps what it sees."""
    return Row(seen=[*(former.seen if former is not None else ()), message.x])


def window_spec(
    window: WindowSpec, *, keyed: bool = True, fold: bool = False, aggregations: Aggregations = AGGREGATIONS
) -> WindowOperatorSpec:
    made: list[Any] = []

    def describe(app: Any) -> None:
        stream = app.input_stream("in", schema=INPUT, timestamp="at", key="k")
        said: dict[str, Any] = {"fold": listed, "schema": "seen array<bigint>"} if fold else dict(aggregations)
        made.append(stream.window(window, key="k" if keyed else None, id="w", **said))
        made[0].sink(print)

    stream_application("test")(describe).spec()
    spec: WindowOperatorSpec = made[0]._operator
    return spec


def batch_of(messages: Sequence[Message]) -> pa.RecordBatch:
    keys, times, values = zip(*messages, strict=True)
    columns = [
        pa.array(keys, pa.string()),
        pa.array(times, pa.int64()).view(pa.timestamp("us", "UTC")),
        pa.array(values, pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=INPUT.to_arrow())


class Epochs:
    """An operator that is thrown away and made anew from its snapshot now and then."""

    def __init__(self, spec: WindowOperatorSpec, chance: random.Random, cut: float) -> None:
        self.spec, self.chance, self.cut = spec, chance, cut
        self.rows: list[dict[str, Any]] = []
        self.late = self.without_time = 0
        self.operator = self._made()

    def _made(self) -> Window:
        assert self.spec.schema is not None
        return Window(self.spec, INPUT, self.spec.schema, lambda: 0)

    def take(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            batch.validate(full=True)
            self.rows += batch.to_pylist()
        if self.chance.random() < self.cut:
            tables = {name: through_a_file(table) for name, table in self.operator.snapshot().items()}
            self._count()
            self.operator = self._made()
            self.operator.restore(tables)

    def _count(self) -> None:
        self.late += self.operator.late
        self.without_time += self.operator.without_time

    def finish(self) -> None:
        self.take(self.operator.flush())
        self._count()


def through_a_file(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        return reader.read_all()


def random_messages(chance: random.Random, count: int) -> list[Message]:
    keys: list[str | None] = chance.choice([["a", "b", "c", None], ["a"], [str(n) for n in range(20)]])
    width = chance.choice([5_000_000, 120_000_000, 3_000_000_000])
    step = chance.choice([1, 1000, 1_000_000])
    return [
        (
            chance.choice(keys),
            None if chance.random() < 0.03 else BEGIN + (n * 2_000_000 + chance.randrange(width)) // step * step,
            None if chance.random() < 0.2 else chance.randrange(12),
        )
        for n in range(count)
    ]


def play(
    spec: WindowOperatorSpec, window: WindowSpec, chance: random.Random, *, keyed: bool = True
) -> tuple[WindowModel, Epochs]:
    """The same messages and watermarks to model and operator, in batches and epochs of any size."""
    model, epochs = WindowModel(window), Epochs(spec, chance, chance.choice([0, 0.3]))
    messages = random_messages(chance, chance.choice([1, 40, 200]))
    lag = chance.choice([0, 10_000_000, 4_000_000_000])
    while messages:
        size = chance.choice([1, 7, 60])
        part, messages = messages[:size], messages[size:]
        for key, time, value in part:
            model.message(key if keyed else None, time, value)
        epochs.take(epochs.operator.process(batch_of(part)))
        if chance.random() < 0.5:
            reached = max([time for _, time, _ in part if time is not None], default=BEGIN)
            watermark = max(reached - lag, BEGIN) // 1000
            model.reach(watermark)
            epochs.take(epochs.operator.on_watermark(watermark))
    model.reach(None)
    epochs.finish()
    return model, epochs


def expected(
    model: WindowModel, window: WindowSpec, made: Callable[[Sequence[Any]], dict[str, Any]], *, keyed: bool = True
) -> list[Any]:
    rows = []
    for key, start, end, values, *pane in model.rows:
        row = {"k": key} if keyed else {}
        row |= {"window_start": start, "window_end": end}
        row |= dict(zip(("pane", "is_final"), pane, strict=False))
        rows.append(row | made(values))
    return rows


def found(epochs: Epochs) -> list[Any]:
    times = ("window_start", "window_end")
    return [{**row, **{name: round(row[name].timestamp() * 1_000_000) for name in times}} for row in epochs.rows]


def same_order(rows: list[Any], *, early: bool) -> list[Any]:
    # Early results of one batch come window by window: only the order within a window is fixed then.
    return sorted(rows, key=lambda row: (row["window_end"], str(row.get("k")), row["pane"])) if early else rows


WINDOWS: list[WindowSpec] = [
    tumbling("10 seconds"),
    tumbling("1 hour"),
    hopping("30 seconds", "10 seconds"),
    hopping("10 seconds", "3 seconds"),
    session("5 seconds"),
    session("1 minute"),
    tumbling("1 minute", early_every=3),
    tumbling("1 minute", early_every=3, accumulating=True),
    tumbling("10 minutes", early_every=1, accumulating=True),
    hopping("1 minute", "20 seconds", early_every=2),
    hopping("1 minute", "20 seconds", early_every=4, accumulating=True),
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("seed", extended_but(range(1), range(8)))
def test_aggregations_are_those_of_the_model(window: WindowSpec, seed: int) -> None:
    model, epochs = play(window_spec(window), window, random.Random(f"{window} {seed}"))
    early = window.is_early
    assert same_order(found(epochs), early=early) == same_order(expected(model, window, aggregated), early=early)
    assert (epochs.late, epochs.without_time) == (len(model.late), model.without_time)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("seed", extended_but(range(1), range(4)))
def test_folds_are_those_of_the_model(window: WindowSpec, seed: int) -> None:
    model, epochs = play(window_spec(window, fold=True), window, random.Random(f"fold {window} {seed}"))
    early = window.is_early
    wanted = expected(model, window, lambda values: {"seen": list(values)})
    assert same_order(found(epochs), early=early) == same_order(wanted, early=early)


@pytest.mark.parametrize("seed", extended_but(range(4), range(20)))
def test_hopping_windows_are_put_together_of_slices(seed: int) -> None:
    chance = random.Random(seed)
    window = chance.choice(
        [hopping("30 seconds", "10 seconds"), hopping("1 hour", "5 minutes"), hopping("10 seconds", "10 seconds")]
    )
    kinds = {name: made for name, made in AGGREGATIONS.items() if name not in IN_ORDER}
    model, epochs = play(window_spec(window, aggregations=kinds), window, chance)
    rows = expected(model, window, aggregated)
    assert found(epochs) == [{name: value for name, value in row.items() if name not in IN_ORDER} for row in rows]
    assert (epochs.late, epochs.without_time) == (len(model.late), model.without_time)


@pytest.mark.parametrize(
    "window", [tumbling("10 seconds"), session("5 seconds"), tumbling("1 minute", early_every=4)], ids=str
)
def test_windows_without_a_key_are_those_of_the_model(window: WindowSpec) -> None:
    model, epochs = play(window_spec(window, keyed=False), window, random.Random(5), keyed=False)
    early = window.is_early
    assert same_order(found(epochs), early=early) == same_order(
        expected(model, window, aggregated, keyed=False), early=early
    )


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.few(3)
def test_no_row_is_older_than_the_watermark_that_was_promised(window: WindowSpec) -> None:
    chance = random.Random(str(window))
    epochs = Epochs(window_spec(window), chance, 0.2)
    promised, watermark = -1, 0
    messages = random_messages(chance, 300)
    for place in range(0, 300, 10):
        epochs.take(epochs.operator.process(batch_of(messages[place : place + 10])))
        watermark = max(watermark, BEGIN // 1000 + place * 1800)
        epochs.take(epochs.operator.on_watermark(watermark))
        assert all(row["window_start"].timestamp() * 1000 >= promised for row in epochs.rows)
        epochs.rows.clear()
        now = epochs.operator.output_watermark(watermark)
        assert promised <= now <= watermark
        promised = now
    epochs.finish()
    assert all(row["window_start"].timestamp() * 1000 >= promised for row in epochs.rows)
