"""Runs the side-input cases: where reading starts, when a store is complete, what entries do."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa
import pytest

from airflow_samza import stream_application
from airflow_samza.errors import SamzaError, TopicError
from airflow_samza.storage.offsets_file import Place
from airflow_samza.systems.system import MessageRun, SystemStreamPartition
from airflow_samza.task.tables.side_inputs import apply_entries
from tests.conformance.shape import fields
from tests.support.side_input_tasks import NotThere, SideInputTask, Topics


def run_starting_offset_case(case: Mapping[str, Any]) -> None:
    fields(case, "case", ["file_offset", "oldest", "expect"], ["config"])
    local, oldest = _offset(case["file_offset"]), _offset(case["oldest"])
    place = ("S", 0)
    end = max(offset for offset in (local, oldest, 0) if offset is not None) + 10
    topics = Topics({} if oldest is None else {place: (oldest, end)}, [])
    task = SideInputTask(topics, {place}, case.get("config", {}))
    if local is not None:
        task.has_read(place, local)
    expected = _offset(case["expect"])
    if expected is None:
        with pytest.raises(TopicError):
            task.inputs()
    else:
        assert [source.start for source in task.inputs()] == [expected]


def run_catch_up_case(case: Mapping[str, Any]) -> None:
    fields(case, "case", ["partitions", "processed", "expect_caught_up_after"])
    ranges: dict[Place, tuple[int, int]] = {}
    for name, data in case["partitions"].items():
        fields(data, name, ["start", "newest", "upcoming"])
        ranges[_place(name)] = (int(data["start"]), int(data["upcoming"]))
    assert ranges, "the case has no partitions"
    topics = Topics(ranges, [(_place(name), int(offset)) for name, offset in case["processed"]])
    task = SideInputTask(topics, ranges.keys(), {})
    try:
        task.tables.fill(task.inputs())
        after: int | None = topics.read_up_to
    except NotThere:
        after = None
    assert after == case["expect_caught_up_after"]


def run_processing_case(case: Mapping[str, Any]) -> None:
    fields(
        case,
        "case",
        ["expect"],
        ["entries", "store", "stores", "processor", "processors", "message", "messages", "offset"],
    )
    expect = fields(
        case["expect"],
        "expect",
        [],
        ["final", "delete", "put", "last_processed", "processors_called", "processor_calls", "reject"],
    )
    if "reject" in expect:
        with pytest.raises(SamzaError) as rejected:
            _rejected(case)
        assert rejected.value.rule == expect["reject"]
        return
    if expect.keys() & {"last_processed", "processors_called", "processor_calls"}:
        _run_tasks(case, expect)
        return
    store, processor = _Recorded(case.get("store", {})), _Processor(case)
    apply_entries(cast(Any, store), processor.process(case.get("message"), store))
    puts = expect.get("put")
    if puts is not None:
        assert store.puts == [tuple(pair) for pair in puts]
    if "final" in expect:
        assert store.content == expect["final"]
    elif puts is None:
        assert not store.puts
    assert store.deletes == expect.get("delete", [])


def _run_tasks(case: Mapping[str, Any], expect: Mapping[str, Any]) -> None:
    """Run a task for each store, over the messages of the places that feed it."""
    messages = [(_place(name), int(offset)) for name, offset in _messages(case)]
    processors: dict[str, _Processor] = {}
    reached: dict[str, str] = {}
    for name, places in case.get("stores", {"s": ["S/0"]}).items():
        fed = list(map(_place, places))
        processors[name] = processor = _Processor(case)
        task = SideInputTask(Topics({}, []), fed, {}, lambda config, metrics, own=processor: own)
        (table,) = task.tables.tables
        for place, offset in messages:
            if place in fed:
                rows = pa.record_batch({"id": [offset], "text": ["x"]})
                table.take(place, MessageRun(SystemStreamPartition("log", *place), offset, rows))
        for (stream, partition), behind in table.reached.items():
            assert reached.setdefault(f"{stream}/{partition}", str(behind - 1)) == str(behind - 1)
    if "last_processed" in expect:
        wanted = expect["last_processed"]
        assert reached == (wanted if isinstance(wanted, dict) else {"S/0": wanted})
    if "processors_called" in expect:
        assert [name for name, processor in processors.items() if processor.calls] == expect["processors_called"]
    if "processor_calls" in expect:
        assert sum(processor.calls for processor in processors.values()) == expect["processor_calls"]


def _messages(case: Mapping[str, Any]) -> list[Any]:
    if "messages" in case:
        return list(case["messages"])
    if "stores" in case:
        return [case["message"]]
    return [["S/0", case.get("offset", "0")]]


def _rejected(case: Mapping[str, Any]) -> None:
    if "store" in case:
        store = fields(case["store"], "store", ["side_inputs"], ["changelog"])
        config = {"stores.s.side.inputs": ",".join(store["side_inputs"])}
        if "changelog" in store:
            config["stores.s.changelog"] = store["changelog"]
        stream_application("case", config=config)(lambda app: app.table("s", key="id")).spec()
    else:
        for name, places in case["stores"].items():
            processor = (lambda config, metrics: _Processor(case)) if name in case["processors"] else None
            SideInputTask(Topics({}, []), list(map(_place, places)), {}, processor, columns="id bigint, note string")


class _Recorded:
    """A store that remembers what was written to it."""

    def __init__(self, content: Mapping[Any, Any]) -> None:
        self.content = dict(content)
        self.puts: list[tuple[Any, Any]] = []
        self.deletes: list[Any] = []

    def __getitem__(self, key: Any) -> Any:
        return self.content[key]

    def put(self, key: Any, value: Any) -> None:
        self.content[key] = value
        self.puts.append((key, value))

    def delete(self, key: Any) -> None:
        self.content.pop(key, None)
        self.deletes.append(key)


class _Processor:
    """Gives the entries of a case, or what its text says: ``k -> store[k]+message``."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.calls = 0
        self._case = case

    def process(self, message: Any, store: Any) -> list[tuple[Any, Any]]:
        self.calls += 1
        text = self._case.get("processor")
        if text is None:
            return [(key, value) for key, value in self._case.get("entries", [])]
        key, arrow, expression = text.partition("->")
        if not arrow:
            pytest.fail(f"unknown shape: the processor {text!r}")
        names = {"store": store, "message": message, key.strip(): key.strip()}
        return [(key.strip(), _value(ast.parse(expression.strip(), mode="eval").body, names))]


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """A sum of names, constants and looked-up values."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _value(node.left, names) + _value(node.right, names)
    if isinstance(node, ast.Subscript):
        return _value(node.value, names)[_value(node.slice, names)]
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    return pytest.fail(f"unknown shape: {ast.unparse(node)!r} in a processor")


def _offset(text: str | None) -> int | None:
    return None if text is None else int(text)


def _place(name: str) -> Place:
    stream, _, partition = name.rpartition("/")
    return stream, int(partition)
