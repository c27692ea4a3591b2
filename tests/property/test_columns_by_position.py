"""A key is a column, not a name: random applications whose names collide at every step, against a model by position.

What the planner and the checks of running operators let through gives what plain Python gives; what is certain to lie
by its key is never rejected.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from airflow_samza import count, stream_application
from airflow_samza.errors import PartitioningMismatch, PlanErrors, SamzaError
from airflow_samza.testing import TestDriver
from tests.support.budgets import extended_but

NAMES = ("k", "v", "w", "K2")
PARTITIONS = 3
Cells = tuple[int | None, ...]


class Step(NamedTuple):
    """Operator of an application: its kind, and the numbers that it takes."""

    kind: str
    numbers: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


@dataclass
class Model:
    """Rows by position. ``key`` is the place of the column by which they lie; None where that is not known."""

    rows: list[Cells]
    names: tuple[str, ...]
    key: int | None
    is_certain: bool = True
    is_doubted: bool = False
    """An operator has checked something that is not certain."""


def steps_of(chance: random.Random) -> list[Step]:
    found = [Step("partition_by", (0,))]
    for _ in range(chance.randint(1, 5)):
        kind = chance.choice(
            (
                "rename",
                "rename",
                "swap",
                "compute",
                "map",
                "map_same",
                "batches",
                "filter",
                "join",
                "right",
                "look_up",
                "broadcast",
            )
        )
        numbers = tuple(chance.sample(range(3), 3))
        found.append(Step(kind, numbers, tuple(chance.sample(NAMES, 3))))
        if chance.random() < 0.15:
            found.append(Step("partition_by", (chance.randint(0, 2),)))
    found.append(Step("aggregate", (chance.choice((0, 1, 2, -1, -1, -1, -1)),)))  # -1: by the key, wherever it is
    return found


def after(model: Model, step: Step, right: list[Cells]) -> Model:
    """Return the rows behind a step, as plain Python makes them."""
    rows, names, key, sure = model.rows, model.names, model.key, model.is_certain
    a, b = (*step.numbers, 0)[:2]
    doubted = model.is_doubted
    match step.kind:
        case "partition_by":
            return Model(rows, names, a, is_doubted=model.is_doubted)
        case "rename":  # every column under another name, in the same order
            return Model(rows, step.names, key, sure, model.is_doubted)
        case "swap":  # columns change places and names at once
            moved = [tuple(row[place] for place in step.numbers) for row in rows]
            return Model(moved, step.names, None if key is None else step.numbers.index(key), sure, model.is_doubted)
        case "compute":  # one column is made by an expression, under its old name
            made = [tuple(_plus(cell) if place == a else cell for place, cell in enumerate(row)) for row in rows]
            return Model(made, names, None if a == key else key, sure, model.is_doubted)
        case "map":  # one column gets other values
            made = [tuple(_half(cell) if place == a else cell for place, cell in enumerate(row)) for row in rows]
            return Model(made, names, key, False, model.is_doubted)
        case "map_same":
            return Model(rows, names, key, False, model.is_doubted)
        case "batches":  # two columns change values
            made = [tuple(row[{a: b, b: a}.get(place, place)] for place in range(3)) for row in rows]
            return Model(made, names, key, False, model.is_doubted)
        case "filter":
            return Model(
                [row for row in rows if (cell := row[a]) is None or cell % 3], names, key, sure, model.is_doubted
            )
        case "join" | "right" | "look_up":  # by the key's column; a match adds nothing but multiplies
            assert key is not None
            found = Counter(k for k, *_ in right)
            times = [(row, found[row[key]] if row[key] is not None else 0) for row in rows]
            if step.kind == "look_up":
                made = [row for row, number in times if number]
            else:
                made = [row for row, number in times for _ in range(number)]
            if step.kind == "right":
                mine = {row[key] for row in rows if row[key] is not None}
                made += [tuple(k if at == key else None for at in range(3)) for k, *_ in right if k not in mine]
            return Model(made, names, key, sure, model.is_doubted or not sure)
        case "broadcast":  # looked up by any column: every task holds the whole table
            known = {k for k, *_ in right}
            return Model([row for row in rows if row[a] in known and row[a] is not None], names, key, sure, doubted)
        case _:
            raise AssertionError(step)


def _plus(cell: int | None) -> int | None:
    return None if cell is None else cell + 1


def _half(cell: int | None) -> int | None:
    return None if cell is None else cell // 2


def schema(names: Sequence[str]) -> str:
    return ", ".join(f"{name} bigint" for name in names)


def application(steps: Sequence[Step]) -> Any:
    def describe(app: Any) -> None:
        stream = app.input_stream("rows", schema=schema(NAMES[:3]), partitions=PARTITIONS)
        keys = app.input_stream("keys", schema="k bigint, v bigint", partitions=PARTITIONS)
        names: tuple[str, ...] = NAMES[:3]
        key = 0
        for number, step in enumerate(steps):
            name, place = f"step-{number}", step.numbers[0]
            a, b = (*step.numbers, 0)[:2]
            match step.kind:
                case "partition_by":
                    stream, key = stream.partition_by(names[place], id=name), place
                case "rename":
                    shown = [each.upper() if a == 0 else each for each in names]  # names of any letter case
                    stream = stream.select(*(f"{old} AS {new}" for old, new in zip(shown, step.names, strict=True)))
                    names = step.names
                case "swap":
                    pairs = [(names[old], new) for old, new in zip(step.numbers, step.names, strict=True)]
                    stream = stream.select(*(old if old == new else f"{old} {new}" for old, new in pairs))
                    names, key = step.names, step.numbers.index(key)
                case "compute":
                    made = [f"{each} + 1 AS {each}" if at == place else each for at, each in enumerate(names)]
                    stream = stream.select(*made)
                case "map":
                    stream = stream.map(_halved(names[place]), schema=schema(names), id=name)
                case "map_same":
                    stream = stream.map(lambda row: row, schema=schema(names), id=name)
                case "batches":
                    stream = stream.map_batches(_crossed(names, a, b), schema=schema(names), id=name)
                case "filter":
                    stream = stream.where(f"{names[place]} IS NULL OR {names[place]} % 3 != 0")
                case "join" | "right":  # the other side's key may have the name of another column of this one
                    theirs = step.names[0]
                    other = keys.partition_by("k", id=f"{name}-keys").select(f"k AS {theirs}", "v AS other_v")
                    how = "inner" if step.kind == "join" else "right"
                    joined = stream.join(other, left_key=names[key], right_key=theirs, how=how, ttl="1 day", id=name)
                    stream = joined.select(*names)
                case "look_up":
                    table = app.local_table(f"{name}-table", key="other", schema="other bigint")
                    keys.partition_by("k", id=f"{name}-keys").select("k AS other").send_to(table)
                    stream = stream.join(table, key=names[key], id=name).select(*names)
                case "broadcast":
                    table = app.local_table(f"{name}-table", key="other", schema="other bigint")
                    keys.broadcast(id=f"{name}-keys").select("k AS other").send_to(table)
                    stream = stream.join(table, key=names[place], id=name).select(*names)
                case "aggregate":
                    counted = stream.aggregate(names[place], id="counted", n=count())
                    counted.select(f"{names[place]} AS key", "n").send_to(app.output_stream("out"))

    return stream_application("columns")(describe)


def _halved(name: str) -> Any:
    return lambda row: {**{each: row[each] for each in row}, name: _half(row[name])}


def _crossed(names: Sequence[str], a: int, b: int) -> Any:
    def crossed(batch: pa.RecordBatch) -> pa.RecordBatch:
        places = [{a: b, b: a}.get(place, place) for place in range(3)]
        return pa.RecordBatch.from_arrays([batch.column(place) for place in places], names=list(names))

    return crossed


def run(seed: int) -> str:
    """Run one application; return what came of it: ``equal``, or ``rejected``."""
    chance = random.Random(seed)
    steps = steps_of(chance)
    rows = [tuple(chance.choice((None, *range(9))) for _ in range(3)) for _ in range(chance.randint(0, 12))]
    right = [(chance.choice((None, *range(9))), 0) for _ in range(chance.randint(0, 6))]
    model = Model(rows, NAMES[:3], None)
    for step in steps[:-1]:
        if step.kind in ("join", "right", "look_up") and model.key is None:
            return "no key"
        model = after(model, step, right)  # type: ignore[arg-type]
    place = steps[-1].numbers[0]
    if place < 0:
        place = model.key or 0
    steps[-1] = Step("aggregate", (place,))
    expected = Counter(row[place] for row in model.rows)
    try:
        driver = TestDriver(application(steps))
        driver.pipe("rows", [dict(zip(NAMES, row, strict=False)) for row in rows])
        driver.pipe("keys", [{"k": k, "v": v} for k, v in right])
        driver.run(mode=chance.choice(("staged", "pipelined")))
    except (PartitioningMismatch, PlanErrors) as error:
        if model.is_certain and not model.is_doubted and model.key == place:
            raise AssertionError((seed, steps)) from error
        return "rejected"
    except SamzaError as error:
        raise AssertionError((seed, steps)) from error
    found = Counter({row.key: row.n for row in driver.output("out")})
    assert found == expected, (seed, steps)
    assert len(driver.output("out")) == len(expected), (seed, steps)
    return "equal"


@pytest.mark.parametrize("part", extended_but([0], range(2)))
@pytest.mark.extended
def test_a_key_is_followed_as_a_column_whatever_its_name(part: int) -> None:
    outcomes = Counter(run(seed) for seed in range(part * 60, part * 60 + 60))
    assert outcomes["equal"] >= 10
    assert outcomes["rejected"] >= 10


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(10))
def test_a_key_is_followed_in_many_applications(part: int) -> None:
    outcomes = Counter(run(seed) for seed in range(1000 + part * 500, 1500 + part * 500))
    assert outcomes["equal"] >= 100
