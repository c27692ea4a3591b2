"""The acts: what somebody changes between two runs, each as a function from a sketch to the changed one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.support.acts.sketches import CALLABLES, LAKE, LOG, NAMED, Node, Sketch

Edit = Callable[[Sketch, random.Random], Sketch | None]
"""An act; None where the sketch has nothing that could be changed so."""

NOTHING = "nothing"
CALLABLE = "edit a callable"
PUSH = "push a table version"


def edit_operator(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Change what an operator declares: its SQL, its aggregations, its length of time."""
    node = _any(sketch, rng, "where", "select", "aggregate", "window", "join")
    if node is None:
        return None
    if node.kind == "where":
        return sketch.with_node(node.but(condition="i > 4" if node.args["condition"] != "i > 4" else "i > 2"))
    if node.kind == "select":
        return sketch.with_node(node.but(more=node.args["more"] + 10))
    if node.kind == "join":
        return sketch.with_node(node.but(ttl="4 minutes" if node.args["ttl"] == "2 minutes" else "2 minutes"))
    columns = dict(node.args["columns"])
    name = rng.choice([name for name in columns if name != "n"])
    column = columns[name].partition('"')[2].partition('"')[0]
    if not column:
        return None
    other = rng.choice([f for f in ("sum_", "min_", "max_") if not columns[name].startswith(f)])
    return sketch.with_node(node.but(columns={**columns, name: f'{other}("{column}")'}))


def edit_callable(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Change the body of a function."""
    node = _any(sketch, rng, *CALLABLES)
    if node is None:
        return None
    name = {"filter": "rest", "map": "more", "flat_map": "times", "lookup": "more", "join": "factor"}[node.kind]
    value = node.args[name]
    return sketch.with_node(node.but(**{name: (value + 1) % 3 if name == "rest" else value + 1}))


def rename_stage(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Give a partition_by, and the stage that it begins, another id."""
    node = _any(sketch, rng, "partition_by")
    assert node is not None
    return sketch.with_node(node.but(id=f"again-{node.args['id']}"))


def rename_stream(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Give an input or an output another id; the place where it lies stays."""
    node = _any(sketch, rng, "input", "output")
    assert node is not None
    id, former = f"renamed-{node.args['id']}", node.args["id"]
    if node.args["system"] == LOG:
        sketch = replace(sketch, config={**sketch.config, f"streams.{id}.samza.physical.name": former})
        node = node.but(topic=former)
    return sketch.with_node(node.but(id=id, **({"data": former} if node.kind == "input" else {})))


def rename_operator(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Give an operator another id."""
    nodes = [node for node in sketch.of_kind(*NAMED) if node.args.get("id")]
    if not nodes:
        return None
    node = rng.choice(nodes)
    return sketch.with_node(node.but(id=f"other-{node.args['id']}"))


def change_partitions(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Change how many partitions an input of files has, or a stream between two stages."""
    inputs = [node for node in sketch.of_kind("input") if node.args["system"] == LAKE]
    if inputs and rng.random() < 0.5:
        node = rng.choice(inputs)
        return sketch.with_node(node.but(partitions=node.args["partitions"] % 3 + 1))
    key = "job.intermediate.stream.partitions"
    return replace(sketch, config={**sketch.config, key: str(int(sketch.config.get(key, "1")) % 3 + 1)})


def change_configuration(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Change configuration: a key that the plan reads, or one that it does not; in the code or from outside."""
    key, value = rng.choice(
        [
            ("job.intermediate.stream.partitions", "4"),
            ("job.epoch.max.messages", "5"),
            ("task.consumer.batch.size", "3"),
        ]
    )
    if rng.random() < 0.5:
        return replace(sketch, given={**sketch.given, key: value})
    return replace(sketch, config={**sketch.config, key: value})


def add_output(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Send the messages of some node to a further output."""
    node = _any(sketch, rng, *NAMED, "input", "partition_by")
    assert node is not None
    system = rng.choice([LAKE, LOG])
    args = {"path": "added", "format": "json"} if system == LAKE else {"partitions": 2}
    return replace(
        sketch,
        nodes=(*sketch.nodes, Node("output_9", "output", (node.name,), {"id": "added", "system": system, **args})),
    )


def remove_output(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Remove an output, and what only led to it."""
    outputs = sketch.of_kind("output")
    if len(outputs) < 2:
        return None
    gone = {rng.choice([node for node in outputs if node.args["id"] != "out"]).name}
    while True:
        idle = {
            node.name
            for node in sketch.nodes
            if node.kind not in ("output", "input")
            and node.name not in gone
            and all(reader.name in gone for reader in sketch.readers(node.name))
        }
        if not idle:
            return replace(sketch, nodes=tuple(node for node in sketch.nodes if node.name not in gone))
        gone |= idle


def change_schema(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Declare a further column of all inputs, which lies in the data."""
    nodes = tuple(node.but(more="z bigint") if node.kind == "input" else node for node in sketch.nodes)
    return replace(sketch, nodes=nodes)


def change_key(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Change the key of a partition_by, and of what groups behind it."""
    nodes = [node for node in sketch.of_kind("aggregate", "window") if node.args["key"] in ("k", "id")]
    if not nodes or any(node.of and node.kind == "join" for node in sketch.nodes):
        return None
    last = nodes[0]
    other = "id" if last.args["key"] == "k" else "k"
    found = last
    while found.kind != "partition_by":
        if found.kind in ("lookup", "join", "merge", "input"):
            return None
        found = sketch.node(found.of[0])
    if any(reader.kind == "lookup" for reader in _below(sketch, found.name)):
        return None
    return sketch.with_node(last.but(key=other)).with_node(found.but(key=other))


def change_window(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Change the length of a window."""
    node = _any(sketch, rng, "window")
    if node is None:
        return None
    others = ['tumbling("2 minutes")', 'tumbling("10 minutes")', 'hopping("4 minutes", "2 minutes")']
    return sketch.with_node(node.but(window=rng.choice([text for text in others if text != node.args["window"]])))


def push_version(sketch: Sketch, rng: random.Random) -> Sketch | None:
    """Push a further version of the table: nothing in the code changes."""
    return replace(sketch, pushes=sketch.pushes + 1) if sketch.pushes else None


ACTS: dict[str, Edit] = {
    NOTHING: lambda sketch, rng: sketch,
    "edit an operator": edit_operator,
    CALLABLE: edit_callable,
    "rename a stage": rename_stage,
    "rename a stream": rename_stream,
    "rename an operator": rename_operator,
    "change partitions": change_partitions,
    "change configuration": change_configuration,
    "add an output": add_output,
    "remove an output": remove_output,
    "change a schema": change_schema,
    "change a key": change_key,
    "change a window": change_window,
    PUSH: push_version,
}


def _any(sketch: Sketch, rng: random.Random, *kinds: str) -> Node | None:
    nodes = sketch.of_kind(*kinds)
    return rng.choice(nodes) if nodes else None


def _below(sketch: Sketch, name: str) -> list[Node]:
    found: list[Node] = []
    for reader in sketch.readers(name):
        found += [reader, *(_below(sketch, reader.name) if reader.kind != "partition_by" else [])]
    return found
