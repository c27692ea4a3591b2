"""Sketches of random applications: values from which a module's source is written, and that a test can edit.

A sketch is a list of nodes, each an operator or a stream. Its source is a whole module; what it should give is in
:mod:`tests.support.acts.model`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

COLUMNS = {"k": "string", "id": "bigint", "i": "bigint", "at": "timestamp"}
"""The columns of every input."""

MORE = {"z": "bigint"}
"""Columns that lie in the data, and that no input declares until somebody edits its schema."""

TABLE = "profiles"
TABLE_PARTITIONS = 2

INTERVAL = ("2026-03-02T00:00:00+00:00", "2026-03-03T00:00:00+00:00")
DAY_BEFORE = ("2026-03-01T00:00:00+00:00", "2026-03-02T00:00:00+00:00")

LAKE, LOG = "lake", "log"

CALLABLES = ("filter", "map", "flat_map", "lookup", "join")
"""Kinds of nodes with a Python function."""

KEYED = ("aggregate", "window", "partition_by")
NAMED = ("where", "filter", "map", "flat_map", "select", "aggregate", "window", "lookup", "join")
"""Kinds of nodes that are operators with an id of their own."""


@dataclass(frozen=True)
class Node:
    """An operator or a stream: the variable that holds it, its kind, the variables that it reads, its arguments."""

    name: str
    kind: str
    of: tuple[str, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)

    def but(self, **args: Any) -> Node:
        """Return the node with other arguments."""
        return replace(self, args={**self.args, **args})


@dataclass(frozen=True)
class Sketch:
    """An application.

    ``config`` is in its decorator, ``given`` comes from outside: the task's ``config=``, ``--config``. ``faulty`` is
    the node whose function raises on one of the messages. ``pushes`` are versions of the pushed table.
    """

    seed: int
    nodes: tuple[Node, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    module: str = "acts_app"
    faulty: str = ""
    has_interval: bool = False
    has_day_before: bool = False
    pushes: int = 0

    @property
    def reference(self) -> str:
        """Return the name under which the application is loaded."""
        return f"{self.module}:app"

    def node(self, name: str) -> Node:
        """Return a node."""
        return next(node for node in self.nodes if node.name == name)

    def of_kind(self, *kinds: str) -> list[Node]:
        """Return the nodes of some kinds."""
        return [node for node in self.nodes if node.kind in kinds]

    def with_node(self, node: Node) -> Sketch:
        """Return the sketch with another node of this name."""
        return replace(self, nodes=tuple(node if known.name == node.name else known for known in self.nodes))

    def readers(self, name: str) -> list[Node]:
        """Return the nodes that read a node."""
        return [node for node in self.nodes if name in node.of]

    def sources(self, node: Node) -> set[str]:
        """Return the ids of the streams whose messages reach a node in its stage."""
        if node.kind in ("input", "partition_by"):
            return {str(node.args["id"])}
        return set().union(*(self.sources(self.node(name)) for name in node.of))

    @property
    def interval(self) -> tuple[str, str] | None:
        """Return the data interval of its runs."""
        return INTERVAL if self.has_interval else None

    def source(self) -> str:
        """Return the source of its module."""
        return "\n".join([*_HEAD, *self._functions(), "", *self._description(), ""])

    def _functions(self) -> Iterator[str]:
        for node in self.nodes:
            if node.kind in CALLABLES:
                yield ""
                yield ""
                yield from _function(node, faulty=node.name == self.faulty)

    def _description(self) -> Iterator[str]:
        config = f", config={dict(self.config)!r}" if self.config else ""
        yield ""
        yield f'@stream_application("acts"{config})'
        yield "def app(app):"
        if self.pushes:
            yield (
                f'    profiles = app.pushed_table("{TABLE}", key="id", schema="id bigint, tier string", '
                f"partitions={TABLE_PARTITIONS})"
            )
        for node in self.nodes:
            yield f"    {_statement(node)}"


_HEAD = (
    '"""An application that a test has written."""',
    "",
    "from airflow_samza import count, count_distinct, hopping, max_, min_, stream_application, sum_, tumbling",
    "",
    f'COLUMNS = "{", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())}"',
)


def _row(i: str) -> str:
    return f"{{'k': row.k, 'id': row.id, 'i': {i}, 'at': row.at}}"


def _function(node: Node, *, faulty: bool) -> Iterator[str]:
    args = node.args
    takes = "row, found" if node.kind in ("lookup", "join") else "row"
    yield f"def {node.name}_of({takes}):"
    if faulty:
        yield "    if row.i == 7:"
        yield '        raise ValueError("a mistake")'
    if node.kind == "filter":
        yield f"    return row.i % {args['modulus']} != {args['rest']}"
    elif node.kind == "map":
        product = f"row.i * {args['factor']} + {args['more']}"
        yield f"    return {_row(product)}"
    elif node.kind == "flat_map":
        yield f"    return [{_row('row.i + number')} for number in range({args['times']})]"
    elif node.kind == "lookup":
        yield f"    return {{'k': found.tier, 'id': row.id, 'i': row.i + {args['more']}, 'at': row.at}}"
    else:
        yield f"    return {{'k': row.k, 'id': row.id, 'i': row.i * {args['factor']} + found.i, 'at': row.at}}"


def _statement(node: Node) -> str:
    args, source = node.args, node.of[0] if node.of else ""
    given = [f"{name}={args[name]!r}" for name in ("id",) if args.get(name) and node.kind in NAMED]
    named = "".join(f", {text}" for text in given)
    if node.kind == "input":
        columns = "COLUMNS" if not args.get("more") else f'COLUMNS + ", {args["more"]}"'
        place = f', path="{args["path"]}", format="json"' if args["system"] == LAKE else ""
        return (
            f'{node.name} = app.input_stream("{args["id"]}", system="{args["system"]}", schema={columns}, '
            f'timestamp="at", partitions={args["partitions"]}{place})'
        )
    if node.kind == "where":
        return f'{node.name} = {source}.where("{args["condition"]}"{named})'
    if node.kind == "select":
        return f'{node.name} = {source}.select("k", "id", "i + {args["more"]} AS i", "at"{named})'
    if node.kind in ("filter", "flat_map", "map"):
        schema = "" if node.kind == "filter" else ", schema=COLUMNS"
        return f"{node.name} = {source}.{node.kind}({node.name}_of{schema}{named})"
    if node.kind == "partition_by":
        return f'{node.name} = {source}.partition_by("{args["key"]}", id="{args["id"]}")'
    if node.kind == "aggregate":
        return f'{node.name} = {source}.aggregate("{args["key"]}"{named}, {_aggregations(args["columns"])})'
    if node.kind == "window":
        return (
            f'{node.name} = {source}.window({args["window"]}, key="{args["key"]}"{named}, '
            f"{_aggregations(args['columns'])})"
        )
    if node.kind == "merge":
        return f"{node.name} = {source}.merge({node.of[1]})"
    if node.kind == "lookup":
        return f"{node.name} = {source}.join({TABLE}, {node.name}_of, schema=COLUMNS{named})"
    if node.kind == "join":
        return (
            f"{node.name} = {source}.join({node.of[1]}, {node.name}_of, key={args['key']!r}, "
            f'ttl="{args["ttl"]}", schema=COLUMNS{named})'
        )
    place = f', path="{args["path"]}", format="{args["format"]}"' if args["system"] == LAKE else ""
    counts = f", partitions={args['partitions']}" if args["system"] == LOG else ""
    return f'{source}.send_to(app.output_stream("{args["id"]}", system="{args["system"]}"{place}{counts}))'


def _aggregations(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={function}" for name, function in columns.items())


def sketch_of(seed: int) -> Sketch:
    """Return the sketch of a seed."""
    return _Drawing(seed).sketch()


class _Drawing:
    """A sketch while it is drawn."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.nodes: list[Node] = []
        self.outputs = 0
        self.has_interval = self.rng.random() < 0.6
        self.pushes = 0

    def add(self, kind: str, *of: str, **args: Any) -> str:
        name = f"{kind}_{sum(node.kind == kind for node in self.nodes)}"
        if kind in NAMED and "id" not in args and (kind not in ("where", "filter", "select") or self.chance(0.7)):
            args["id"] = name.replace("_", "-")
        self.nodes.append(Node(name, kind, of, args))
        return name

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def sketch(self) -> Sketch:
        rng = self.rng
        streams = [self.input() for _ in range(2 if self.chance(0.35) else 1)]
        key = rng.choice(["k", "id"])
        if len(streams) == 2 and self.chance(0.5):
            parts = [self.partition(stream, key) for stream in streams]
            stream = self.add("join", *parts, key=key, ttl=rng.choice(["1000 days", "2 minutes"]), factor=100)
        else:
            stream = self.add("merge", *streams) if len(streams) == 2 else streams[0]
            stream = self.partition(stream, key)
        stream = self.steps(stream, 0, 1)
        if self.chance(0.3):
            self.output(self.add("where", stream, **self.condition()), "aside")
        if key == "id" and self.chance(0.5):
            self.pushes = 1
            stream = self.add("lookup", stream, more=rng.randint(0, 3))
            stream, key = self.partition(stream, "k"), "k"
        self.end(stream, key)
        files_only = all(node.args["system"] == LAKE for node in self.nodes if node.kind == "input")
        config = {"job.intermediate.stream.partitions": str(rng.choice([1, 2, 2, 3]))} if self.chance(0.8) else {}
        return Sketch(
            self.seed,
            tuple(self.nodes),
            config=config,
            has_interval=self.has_interval,
            has_day_before=self.has_interval and files_only and self.chance(0.5),
            pushes=self.pushes,
        )

    def input(self) -> str:
        number = sum(node.kind == "input" for node in self.nodes)
        system = self.rng.choice([LAKE, LAKE, LOG])
        id = ("rows", "others")[number]
        place = f"in/{id}/{{ds}}/*.jsonl" if self.has_interval else f"in/{id}/*.jsonl"
        where: dict[str, Any] = {"path": place} if system == LAKE else {}
        partitions = self.rng.choice([1, 1, 2, 3]) if system == LAKE else 2
        return self.steps(self.add("input", id=id, system=system, partitions=partitions, **where), 0, 2)

    def partition(self, stream: str, key: str) -> str:
        number = sum(node.kind == "partition_by" for node in self.nodes)
        return self.add(
            "partition_by", stream, key=key, id=f"{('by', 'then-by', 'last-by', 'at-last-by')[number]}-{key}"
        )

    def steps(self, stream: str, least: int, most: int) -> str:
        for _ in range(self.rng.randint(least, most)):
            kind = self.rng.choice(["where", "filter", "filter", "map", "map", "flat_map", "select"])
            stream = self.add(kind, stream, **self.arguments(kind))
        return stream

    def arguments(self, kind: str) -> dict[str, Any]:
        rng = self.rng
        if kind == "where":
            return self.condition()
        if kind == "filter":
            return {"modulus": rng.choice([3, 4, 5]), "rest": rng.randint(0, 2)}
        if kind == "map":
            return {"factor": rng.randint(1, 3), "more": rng.randint(0, 4)}
        return {"times": rng.randint(1, 2)} if kind == "flat_map" else {"more": rng.randint(0, 3)}

    def condition(self) -> dict[str, Any]:
        rng = self.rng
        return {"condition": rng.choice([f"i > {rng.randint(0, 3)}", f"i % 4 <> {rng.randint(0, 3)}", "k <> 'b'"])}

    def end(self, stream: str, key: str) -> None:
        last = self.rng.choice(["aggregate", "aggregate", "again", "window", "twice", "send"])
        if last == "again":
            key = "id" if key == "k" else "k"
            stream = self.partition(self.steps(stream, 0, 1), key)
        if last == "send":
            self.output(stream, "out")
            return
        if last == "window":
            window = self.rng.choice(
                ['tumbling("2 minutes")', 'tumbling("10 minutes")', 'hopping("4 minutes", "2 minutes")']
            )
            self.output(self.add("window", stream, key=key, window=window, columns=self.aggregations()), "out")
            return
        stream = self.add("aggregate", stream, key=key, columns={"n": "count()", **self.aggregations()})
        if last == "twice":
            stream = self.partition(stream, "n")
            stream = self.add("aggregate", stream, key="n", columns={"groups": "count()", "sum": 'sum_("n")'})
        self.output(stream, "out")

    def aggregations(self) -> dict[str, str]:
        known = {"total": 'sum_("i")', "least": 'min_("i")', "most": 'max_("i")', "kinds": 'count_distinct("i")'}
        return {name: known[name] for name in self.rng.sample(sorted(known), self.rng.randint(1, 3))}

    def output(self, stream: str, id: str) -> str:
        system = self.rng.choice([LAKE, LAKE, LOG])
        args: dict[str, Any] = {"id": id, "system": system}
        if system == LAKE:
            day = "/{ds}" if self.has_interval and self.chance(0.4) else ""
            args |= {"path": f"{id}{day}", "format": self.rng.choice(["json", "json", "parquet"])}
        else:
            args["partitions"] = 2
        return self.add("output", stream, **args)
