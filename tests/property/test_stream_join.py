"""A stream join gives what looking at every pair gives, however its messages interleave, and wherever its run is cut into epochs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from airflow_samza.application.operator_specs import StreamJoinSpec
from airflow_samza.task.operators.stream_join import buffer, operator
from airflow_samza.task.operators.stream_join.operator import StreamJoin
from tests.support.budgets import share
from tests.support.stream_join_model import KINDS, batch_of, in_order, join_spec, joined_rows, make_join

SETTINGS = settings(
    max_examples=share(40),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

KEYS: dict[str, Any] = {
    "bigint": st.one_of(st.none(), st.integers(0, 3), st.sampled_from([-(2**63), 2**63 - 1, 2**40, 7])),
    "int": st.one_of(st.none(), st.integers(0, 3)),
    "string": st.sampled_from([None, "", "a", "b", "ä long key that is longer than others"]),
    "double": st.sampled_from([None, 0.0, -0.0, math.nan, 1.5, math.inf]),
    "boolean": st.sampled_from([None, True, False]),
}
TIMES = st.one_of(st.none(), st.integers(0, 60), st.sampled_from([10**13, -(10**12)]))
SOON = st.integers(0, 60)


@st.composite
def joins(draw: Any, times: Any = TIMES) -> tuple[StreamJoinSpec, list[dict[str, Any]], list[dict[str, Any]]]:
    kinds = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=2))
    key = [f"k{place}" for place in range(len(kinds))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(key, kinds, strict=True))
    right = ", ".join(f"r_{name} {kind}" for name, kind in zip(key, kinds, strict=True))
    spec = join_spec(
        draw(st.sampled_from(KINDS)),
        draw(st.integers(1, 20)),
        key,
        f"{columns}, at bigint, v int",
        f"{right}, r_at bigint, w int",
    )

    def rows(prefix: str, value: str) -> list[dict[str, Any]]:
        shape = {f"{prefix}{name}": KEYS[kind] for name, kind in zip(key, kinds, strict=True)}
        made = draw(st.lists(st.fixed_dictionaries({**shape, f"{prefix}at": times}), max_size=40))
        return [{**row, value: number} for number, row in enumerate(made)]

    return spec, rows("", "v"), rows("r_", "w")


class Running:
    """A join that is fed, and what came out of it."""

    def __init__(self, spec: StreamJoinSpec) -> None:
        self.spec = spec
        self.join: StreamJoin = make_join(spec)
        self.out: list[dict[str, Any]] = []

    def take(self, batches: Iterable[pa.RecordBatch]) -> None:
        assert self.spec.schema is not None
        for batch in batches:
            batch.validate(full=True)
            assert batch.schema.equals(self.spec.schema.to_arrow())
            self.out += batch.to_pylist()

    def next_epoch(self) -> None:
        self.take(self.join.settle())
        state = self.join.snapshot()
        self.join = make_join(self.spec)
        self.join.restore(state)


@SETTINGS
@given(joins(), st.data())
def test_any_interleaving_and_any_epochs_give_every_pair_once(case: Any, data: Any) -> None:
    spec, left, right = case
    running = Running(spec)
    sides = [list(left), list(right)]
    while sides[0] or sides[1]:
        side = data.draw(st.sampled_from([side for side in (0, 1) if sides[side]]))
        count = data.draw(st.integers(1, 15))
        running.take(running.join.process_from(batch_of(sides[side][:count], spec, side), side))
        sides[side] = sides[side][count:]
        if data.draw(st.integers(0, 3)) == 0:
            running.next_epoch()
    running.take(running.join.flush())
    assert in_order(running.out) == in_order(joined_rows(spec, left, right))


@SETTINGS
@given(joins(SOON), st.data())
def test_watermarks_change_nothing_but_when_rows_come(case: Any, data: Any) -> None:
    spec, left, right = case
    running = Running(spec)
    messages = [(row["at"], 0, row) for row in left] + [(row["r_at"], 1, row) for row in right]
    delay = data.draw(st.integers(0, 10))
    messages.sort(key=lambda message: message[0])
    while messages:  # each may come as long as the watermark is not past it
        place = data.draw(st.integers(0, len(messages) - 1))
        if messages[place][0] > messages[0][0] + delay:
            place = 0
        _, side, row = messages.pop(place)
        running.take(running.join.process_from(batch_of([row], spec, side), side))
        if messages:
            mark = messages[0][0]
            running.take(running.join.on_watermark(mark))
            running.take(running.join.settle())
            state = running.join.snapshot()
            for name, table in state.items():
                assert name == "watermark" or all(
                    time >= (mark - spec.ttl_ms) * 1000 for time in table.column("time").to_pylist()
                )
        if data.draw(st.integers(0, 3)) == 0:
            running.next_epoch()
    running.take(running.join.flush())
    assert running.join.late == 0
    assert in_order(running.out) == in_order(joined_rows(spec, left, right))


@pytest.mark.parametrize("name", ["pieces", "work", "coarse", "folded"])
@SETTINGS
@given(joins())
def test_small_pieces_and_coarse_places_give_the_same(monkeypatch: pytest.MonkeyPatch, name: str, case: Any) -> None:
    spec, left, right = case
    with monkeypatch.context() as patched:
        if name == "pieces":
            patched.setattr(buffer, "PAIRS", 3)
        elif name == "work":
            patched.setattr(operator, "WORK", 4)
        elif name == "coarse":
            patched.setattr(buffer, "_BITS", 44)
        else:
            patched.setattr(buffer, "_WIDE", 0)
        running = Running(spec)
        for start in range(0, 40, 5):
            for side, rows in enumerate((left, right)):
                if rows[start : start + 5]:
                    running.take(running.join.process_from(batch_of(rows[start : start + 5], spec, side), side))
        running.take(running.join.flush())
    assert in_order(running.out) == in_order(joined_rows(spec, left, right))
