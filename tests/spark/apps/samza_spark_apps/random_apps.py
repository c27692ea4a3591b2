"""Random applications and data for comparing the ways to run them.

Stages, windows, joins, aggregations, tables, several inputs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_samza import avg, count, count_distinct, hopping, max_, min_, session, stream_application, sum_, tumbling

SCHEMA = "k string, g int, i bigint, at timestamp"
OTHER = {"k": "k string, j bigint, then timestamp", "g": "g int, j bigint, then timestamp"}
START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
OUT_OF_ORDER = 40
"""Seconds by which messages come late at most."""

AGGREGATIONS: dict[str, Callable[[], Any]] = {
    "n": count,
    "with_i": lambda: count("i"),
    "different": lambda: count_distinct("i"),
    "total": lambda: sum_("i"),
    "mean": lambda: avg("i"),
    "least": lambda: min_("i"),
    "most": lambda: max_("at"),
}


@dataclass(frozen=True)
class Plan:
    """Parts of a random application; all is drawn again from the seed, so that every use makes the same one."""

    seed: int
    with_table: bool

    @property
    def partitions(self) -> int:
        """Of every input."""
        return random.Random(self.seed).randint(1, 3)

    @property
    def config(self) -> dict[str, str]:
        """The configuration of the application."""
        return {"job.intermediate.stream.partitions": str(random.Random(self.seed + 3).randint(1, 3))}

    def application(self, *, bounded: bool) -> Any:
        """The application with inputs of this kind."""
        return stream_application("random")(lambda app: self.describe(app, bounded=bounded))

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The inputs of the application, and their columns."""
        spec = self.application(bounded=True).spec()
        return {name: stream.schema.names for name, stream in spec.inputs.items() if stream.schema is not None}

    def messages(self) -> list[tuple[str, dict[str, Any]]]:
        """Messages of all inputs in the order in which they come, nearly by their times."""
        rng = random.Random(self.seed + 1)
        inputs = self.inputs
        found: list[tuple[str, dict[str, Any]]] = []
        for number in range(rng.randint(0, 45)):
            # No two have one time: which of those is the first depends on where they lie.
            at = START + timedelta(seconds=20 * number - rng.randint(0, OUT_OF_ORDER), milliseconds=number)
            message = {
                "k": rng.choice(["a", "b", "c", None]),
                "g": rng.choice([0, 1, 2, None]),
                "i": rng.choice([None, *range(-3, 4)]),
                "at": at,
            }
            stream = rng.choice(list(inputs))
            known = {**message, "j": message["i"], "then": message["at"]}
            found.append((stream, {name: known[name] for name in inputs[stream]}))
        return found

    def describe(self, app: Any, *, bounded: bool) -> None:
        """The application."""
        rng = random.Random(self.seed + 2)
        options: dict[str, Any] = {"bounded": bounded, "timestamp": "at", "max_delay": f"{2 * OUT_OF_ORDER} seconds"}
        if not bounded:
            options["slice"] = "checkpoint"
        stream = self._steps(rng, app.input_stream("one", schema=SCHEMA, **options))
        if rng.random() < 0.3:
            stream = stream.merge(app.input_stream("two", schema=SCHEMA, **options))
        key = rng.choice(["k", "g"])
        stream = self._steps(rng, stream.partition_by(key, id="first"))
        stream = self._distinct(random.Random(self.seed + 4), stream, key)
        if rng.random() < 0.3:
            stream.where("i > 0").send_to(app.output_stream("aside"))
        kinds = ["join", "none", *(["table"] if self.with_table else [])]
        kind = rng.choice(kinds)
        if kind == "join":
            other = app.input_stream("other", schema=OTHER[key], **{**options, "timestamp": "then"}).partition_by(
                key, id="others"
            )
            how = rng.choice(["inner", "left", "right", "full"])
            stream = stream.join(other, id="join", key=key, how=how, ttl=f"{rng.choice([1, 30, 120])} seconds")
            stream.send_to(app.output_stream("joined"))
        elif kind == "table":
            table = app.local_table("known", key="k", schema="k string, first bigint")
            rows = (
                app.input_stream("rows", schema=SCHEMA, bounded=bounded)
                .where("k IS NOT NULL")
                .partition_by("k", id="table-rows")
            )
            rows.aggregate("k", id="one-row", first=min_("i")).send_to(table)
            if key != "k":
                stream = stream.partition_by("k", id="to-table")
            stream = stream.join(table, id="lookup", how=rng.choice(["inner", "left"]))
            stream.send_to(app.output_stream("joined"))
        last = rng.choice(["aggregate", "window", "window", "again", "send"]) if kind != "join" else "none"
        if last == "again":
            stream = stream.partition_by(["g", "k"], id="second")
            stream.aggregate(["g", "k"], id="totals", **self._aggregations(rng)).send_to(app.output_stream("out"))
        elif last == "aggregate":
            stream.aggregate("k" if kind == "table" else key, id="totals", **self._aggregations(rng)).send_to(
                app.output_stream("out")
            )
        elif last == "window":
            stream.window(
                self._window(rng), id="window", key="k" if kind == "table" else key, **self._aggregations(rng)
            ).send_to(app.output_stream("out"))
        elif last == "send":
            stream.send_to(app.output_stream("out"))

    @staticmethod
    def _steps(rng: random.Random, stream: Any) -> Any:
        for _ in range(rng.randint(0, 2)):
            step = rng.randrange(5)
            if step == 0:
                stream = stream.where("i <> 2 OR i IS NULL")
            elif step == 1:
                stream = stream.filter(lambda row: row.g != 1)
            elif step == 2:
                stream = stream.map(lambda row: row)
            elif step == 3:
                stream = stream.flat_map(lambda row: [row] if row.i != 3 else [row, row])
            else:
                stream = stream.select("*")
        return stream

    @staticmethod
    def _distinct(rng: random.Random, stream: Any, key: str) -> Any:
        if rng.random() < 0.6:
            return stream
        within, keep = f"{rng.choice([1, 45, 300])} seconds", rng.choice(["first", "last"])
        return stream.distinct(rng.choice([key, [key, "i"]]), id="once", within=within, keep=keep)

    @staticmethod
    def _aggregations(rng: random.Random) -> dict[str, Any]:
        return {name: AGGREGATIONS[name]() for name in rng.sample(sorted(AGGREGATIONS), rng.randint(1, 4))}

    @staticmethod
    def _window(rng: random.Random) -> Any:
        kind = rng.randrange(3)
        if kind == 0:
            return tumbling(f"{rng.choice([20, 60, 300])} seconds")
        if kind == 1:
            return hopping("2 minutes", f"{rng.choice([30, 60, 120])} seconds")
        return session(f"{rng.choice([15, 45, 200])} seconds")


def plan_of(seed: int) -> Plan:
    """The plan of a seed; three in ten have a table."""
    return Plan(seed, with_table=random.Random(seed).random() < 0.3)


def __getattr__(name: str) -> Any:
    """``bounded_7`` and ``unbounded_7`` are the applications of seed 7."""
    kind, _, seed = name.partition("_")
    if kind not in ("bounded", "unbounded") or not seed.isdigit():
        raise AttributeError(name)
    return plan_of(int(seed)).application(bounded=kind == "bounded")
