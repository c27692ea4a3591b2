"""Column lineage against what really happens: a column that plays a part in an output is among its sources."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, assume, event, given, settings, strategies as st

from airflow_samza.application.application import ApplicationSpec, StreamApplication
from airflow_samza.application.windows import count, max_, min_, sum_, tumbling
from airflow_samza.errors import SamzaError
from airflow_samza.testing import TestDriver
from tests.support.budgets import share
from tests.support.lineage_applications import whole_run

ROW = "k bigint, c string, v bigint, w bigint, at timestamp"
COLUMNS = ("k", "c", "v", "w", "at")
INPUTS = ("one", "two")
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)

Rows = list[dict[str, Any]]


def _selected(stream: Any, other: Any, name: str, app: Any) -> Any:
    return stream.select("k", "upper(c) AS c", "w AS v", "v + 1 AS w", "at", id=name)


def _decided(stream: Any, other: Any, name: str, app: Any) -> Any:
    return stream.select("k", "CASE WHEN v > w THEN c ELSE 'no' END AS c", "v", "v - k AS w", "at", id=name)


def _kept(stream: Any, other: Any, name: str, app: Any) -> Any:
    return stream.where("v > 1 OR w = 0", id=name)


def _called(stream: Any, other: Any, name: str, app: Any) -> Any:
    return stream.map(lambda row: {**row, "v": row["w"], "w": row["k"]}, schema=ROW, id=name)


def _filtered(stream: Any, other: Any, name: str, app: Any) -> Any:
    return stream.filter(lambda row: row["w"] is None or row["w"] < 3, id=name)


def _merged(stream: Any, other: Any, name: str, app: Any) -> Any:
    return stream.merge(other, id=name)


def _totals(stream: Any, other: Any, name: str, app: Any) -> Any:
    keyed = stream.partition_by("k", id=f"{name}-key")
    return keyed.aggregate("k", id=name, c=max_("c"), v=sum_("v"), w=count("w"), at=min_("at"))


def _windows(stream: Any, other: Any, name: str, app: Any) -> Any:
    keyed = stream.partition_by("k", id=f"{name}-key")
    found = keyed.window(tumbling("1 hour"), key="k", id=name, c=max_("c"), v=sum_("v"), w=count())
    return found.select("k", "c", "v", "w", "window_start AS at", id=f"{name}-columns")


def _joined(stream: Any, other: Any, name: str, app: Any) -> Any:
    left = stream.partition_by("k", id=f"{name}-left")
    right = other.select("k AS k2", "c AS c2", "v AS v2", "at AS at2", id=f"{name}-columns")
    right = right.partition_by("k2", id=f"{name}-right")
    joined = left.join(right, left_key="k", right_key="k2", ttl="1 day", id=name)
    return joined.select("k", "c2 AS c", "v", "v2 AS w", "at", id=f"{name}-joined")


def _looked_up(stream: Any, other: Any, name: str, app: Any) -> Any:
    table = app.local_table(f"{name}-table", key="k", schema="k bigint, c2 string, v2 bigint")
    rows = other.partition_by("k", id=f"{name}-right").aggregate("k", id=f"{name}-rows", c2=max_("c"), v2=min_("v"))
    rows.send_to(table)
    joined = stream.partition_by("k", id=f"{name}-left").join(table, how="left", id=name)
    return joined.select("k", "coalesce(c2, c) AS c", "v2 AS v", "w", "at", id=f"{name}-joined")


STEPS = (_selected, _decided, _kept, _called, _filtered, _merged, _totals, _windows, _joined, _looked_up)
SQL_STEPS = tuple(step for step in STEPS if step not in (_called, _filtered))


def application(steps: list[tuple[int, int, int]], kinds: tuple[Any, ...] = STEPS) -> StreamApplication:
    """Return an application of steps: which kind, on which stream, with which other."""

    class Drawn(StreamApplication):
        name = "drawn"

        def describe(self, app: Any) -> None:
            streams = [app.input_stream(name, schema=ROW, timestamp="at", partitions=2) for name in INPUTS]
            for number, (kind, stream, other) in enumerate(steps):
                step = kinds[kind % len(kinds)]
                made = step(streams[stream % len(streams)], streams[other % len(streams)], f"s{number}", app)
                streams.append(made)
            streams[-1].send_to(app.output_stream("last"))
            streams[-2].send_to(app.output_stream("before"))

    return Drawn()


VALUES = {
    "k": st.integers(0, 2),
    "c": st.sampled_from(["a", "b", "c"]),
    "v": st.one_of(st.none(), st.integers(0, 4)),
    "w": st.one_of(st.none(), st.integers(0, 4)),
    "at": st.integers(0, 200).map(lambda minutes: START + datetime.timedelta(minutes=minutes)),
}
ROWS = st.lists(st.fixed_dictionaries(VALUES), min_size=3, max_size=8)
DRAWN = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=4)
SETTINGS = settings(max_examples=share(60), deadline=None, suppress_health_check=list(HealthCheck))


def described(steps: list[tuple[int, int, int]], kinds: tuple[Any, ...] = STEPS) -> tuple[Any, ApplicationSpec]:
    made = application(steps, kinds)
    try:
        spec = made.spec()
        whole_run(spec)
    except SamzaError:
        assume(False)
    return made, spec


def written(made: Any, rows: Mapping[str, Rows]) -> dict[tuple[str, str], Counter[Any]]:
    """Return the values of each column of each output."""
    driver = TestDriver(made, partitions=2)
    for stream, messages in rows.items():
        driver.pipe(stream, messages, partition=0)
    driver.run()
    tables = {name: driver.output_table(name) for name in ("last", "before")}
    return {(n, c): Counter(table.column(c).to_pylist()) for n, table in tables.items() for c in table.column_names}


@SETTINGS
@given(steps=DRAWN, rows=st.fixed_dictionaries(dict.fromkeys(INPUTS, ROWS)), data=st.data())
def test_a_column_whose_values_change_an_output_is_among_its_sources(
    steps: list[tuple[int, int, int]], rows: dict[str, Rows], data: st.DataObject
) -> None:
    made, spec = described(steps)
    lineage = whole_run(spec)
    stream, column = data.draw(st.sampled_from(INPUTS)), data.draw(st.sampled_from(COLUMNS))
    others = [data.draw(VALUES[column]) for _ in rows[stream]]
    changed = {**rows, stream: [{**row, column: value} for row, value in zip(rows[stream], others, strict=True)]}
    before, after = written(made, rows), written(made, changed)
    differ = [place for place in before if before[place] != after[place]]
    event(f"outputs that change: {bool(differ)}")
    for output, name in differ:
        found = lineage[output]
        sources = {(source.stream, source.column) for source in (*found.columns[name], *found.rows)}
        assert (stream, column) in sources, (output, name, sorted(sources))


@SETTINGS
@given(steps=DRAWN)
def test_what_is_left_out_of_topics_changes_nothing_from_end_to_end(steps: list[tuple[int, int, int]]) -> None:
    _, spec = described(steps, SQL_STEPS)
    assert whole_run(spec, reduced=True) == whole_run(spec, reduced=False)
