"""The rows that a sketch should give, by a few lines of plain Python for each kind of node."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.support.acts.sketches import INTERVAL, Node, Sketch

Row = dict[str, Any]
Rows = list[Row]

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def data_of(sketch: Sketch, id: str, interval: tuple[str, str] | None) -> Rows:
    """Return the messages of an input in an interval, with all columns that lie there."""
    start = datetime.fromisoformat((interval or INTERVAL)[0])
    rng = random.Random(f"{sketch.seed} {id} {start}")
    return [
        {
            "k": rng.choice("abcd"),
            "id": rng.randrange(5),
            "i": 7 if number == 3 else rng.randrange(12),
            "at": start + timedelta(seconds=23 * number + rng.randrange(20)),
            "z": number,
        }
        for number in range(rng.randint(18, 36))
    ]


def tiers(version: int) -> dict[int, str]:
    """Return the rows of a version of the pushed table; nobody has the tier of the last id."""
    return {id: ("gold", "silver", "tin")[(id * version + version) % 3] for id in range(4)}


def expected(sketch: Sketch, interval: tuple[str, str] | None, pushes: int) -> dict[str, Counter[str]]:
    """Return the rows of every output of a run, by place; ``pushes`` versions of the table are there."""
    made: dict[str, Rows] = {}
    found: dict[str, Counter[str]] = {}
    for node in sketch.nodes:
        if node.kind == "output":
            found.setdefault(place_of(node), Counter()).update(map(text_of, made[node.of[0]]))
        elif node.kind == "input":
            columns = {"k", "id", "i", "at", *([node.args["more"].split()[0]] if node.args.get("more") else [])}
            made[node.name] = [
                {name: value for name, value in row.items() if name in columns}
                for row in data_of(sketch, node.args["data"] if "data" in node.args else node.args["id"], interval)
            ]
        else:
            made[node.name] = _KINDS[node.kind](node, [made[name] for name in node.of], pushes)
    return found


def place_of(output: Node) -> str:
    """Return where an output lies, without its interval: several outputs may lie in one place."""
    return f"{output.args['system']}:{output.args.get('path', output.args.get('topic', output.args['id'])).partition('/')[0]}"


def text_of(row: Mapping[str, Any]) -> str:
    """Return a row as a text that is equal for equal rows, whatever format they were in."""
    return ", ".join(f"{name}={_plain(value)}" for name, value in sorted(row.items()))


def _plain(value: Any) -> str:
    if isinstance(value, str) and len(value) > 18 and value[4] == "-":
        value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat() if value.tzinfo else value.isoformat() + "+00:00"
    return repr(value)


def _where(node: Node, sources: Sequence[Rows], pushes: int) -> Rows:
    condition = node.args["condition"]
    left, _, right = condition.rpartition(" ")
    keep: Callable[[Row], bool]
    if left == "k <>":
        keep = lambda row: row["k"] != right.strip("'")  # noqa: E731
    elif left == "i >":
        keep = lambda row: row["i"] > int(right)  # noqa: E731
    else:
        keep = lambda row: row["i"] % 4 != int(right)  # noqa: E731
    return [row for row in sources[0] if keep(row)]


def _filter(node: Node, sources: Sequence[Rows], pushes: int) -> Rows:
    return [row for row in sources[0] if row["i"] % node.args["modulus"] != node.args["rest"]]


def _base(row: Row, **more: Any) -> Row:
    return {**{name: row[name] for name in ("k", "id", "i", "at")}, **more}


def _map(node: Node, sources: Sequence[Rows], pushes: int) -> Rows:
    return [_base(row, i=row["i"] * node.args["factor"] + node.args["more"]) for row in sources[0]]


def _flat_map(node: Node, sources: Sequence[Rows], pushes: int) -> Rows:
    return [_base(row, i=row["i"] + number) for row in sources[0] for number in range(node.args["times"])]


def _select(node: Node, sources: Sequence[Rows], pushes: int) -> Rows:
    return [_base(row, i=row["i"] + node.args["more"]) for row in sources[0]]


def _as_it_is(node: Node, sources: Sequence[Rows], pushes: int) -> Rows:
    return sources[0]


def _merge(node: Node, sources: Sequence[Rows], pushes: int) -> Rows:
    return [row for rows in sources for row in rows]


def _lookup(node: Node, sources: Sequence[Rows], pushes: int) -> Rows:
    found = tiers(pushes)
    return [_base(row, k=found[row["id"]], i=row["i"] + node.args["more"]) for row in sources[0] if row["id"] in found]


_UNITS = {"minutes": 60, "days": 86400}


def _join(node: Node, sources: Sequence[Rows], pushes: int) -> Rows:
    key, (number, unit) = node.args["key"], node.args["ttl"].split()
    ttl = timedelta(seconds=int(number) * _UNITS[unit])
    return [
        _base(row, i=row["i"] * node.args["factor"] + other["i"])
        for row in sources[0]
        for other in sources[1]
        if row[key] == other[key] and abs(row["at"] - other["at"]) <= ttl
    ]


_AGGREGATIONS: dict[str, Callable[[list[Any]], Any]] = {
    "sum_": sum,
    "min_": min,
    "max_": max,
    "count_distinct": lambda values: len(set(values)),
}


def _aggregated(columns: Mapping[str, str], rows: Rows) -> Row:
    found = {}
    for name, text in columns.items():
        function, _, column = text.rstrip(")").partition("(")
        found[name] = len(rows) if not column else _AGGREGATIONS[function]([row[column.strip('"')] for row in rows])
    return found


def _aggregate(node: Node, sources: Sequence[Rows], pushes: int) -> Rows:
    groups: dict[Any, Rows] = {}
    for row in sources[0]:
        groups.setdefault(row[node.args["key"]], []).append(row)
    return [{node.args["key"]: key, **_aggregated(node.args["columns"], rows)} for key, rows in groups.items()]


def _window(node: Node, sources: Sequence[Rows], pushes: int) -> Rows:
    _, _, lengths = node.args["window"].rstrip(")").partition("(")
    minutes = [int(length.strip('" ').split()[0]) for length in lengths.split(",")]
    length, hop = timedelta(minutes=minutes[0]), timedelta(minutes=minutes[-1])
    groups: dict[tuple[Any, datetime], Rows] = {}
    for row in sources[0]:
        start = EPOCH + (row["at"] - EPOCH) // hop * hop
        while start + length > row["at"]:
            groups.setdefault((row[node.args["key"]], start), []).append(row)
            start -= hop
    return [
        {
            node.args["key"]: key,
            "window_start": start,
            "window_end": start + length,
            **_aggregated(node.args["columns"], rows),
        }
        for (key, start), rows in groups.items()
    ]


_KINDS: dict[str, Callable[[Node, Sequence[Rows], int], Rows]] = {
    "where": _where,
    "filter": _filter,
    "map": _map,
    "flat_map": _flat_map,
    "select": _select,
    "partition_by": _as_it_is,
    "merge": _merge,
    "lookup": _lookup,
    "join": _join,
    "aggregate": _aggregate,
    "window": _window,
}
