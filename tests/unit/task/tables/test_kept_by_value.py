"""Stores and tables keep what was put as it was then.

An object that is changed afterwards, or that was given out, changes nothing.
"""

from __future__ import annotations

import copy
import dataclasses
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given, settings, strategies as st

from airflow_samza import InitableTask, StreamTask, stream_application, task_application
from airflow_samza.errors import RemoteTableError
from airflow_samza.row import Row
from airflow_samza.schema import Schema
from airflow_samza.task.tables.side_inputs import MessageStore, apply_entries
from airflow_samza.task.tables.store import TableStore
from airflow_samza.testing import TestDriver


@dataclass
class Profile:
    member_id: int
    tier: str
    tags: list[str]


@dataclass
class Plain:
    member_id: int
    tier: str


@dataclass(frozen=True)
class Tagged:
    member_id: int
    tier: str
    tags: list[str]


SHAPES: dict[str, Any] = {
    "Profile": Profile,
    "Plain": Plain,
    "Tagged": Tagged,
    "ddl": "member_id bigint, tier string",
    "nested": "member_id bigint, tier string, tags array<string>",
    "binary": "member_id bigint, tier binary",
}


def changed(row: Any) -> None:
    """Changes all that can be changed in place."""
    tags = row.get("tags") if type(row) is dict else getattr(row, "tags", None)
    if tags is not None:
        tags.append("changed")
    if type(row) is dict:
        if isinstance(row["tier"], bytearray):
            row["tier"].extend(b" changed")
        else:
            row["tier"] = "changed"
    elif isinstance(row, Profile | Plain):
        row.tier = "changed"


def columns(row: Any) -> dict[str, Any] | None:
    if row is None:
        return None
    found = dict(row) if isinstance(row, dict) else dataclasses.asdict(row)
    return {name: bytes(value) if isinstance(value, bytearray) else value for name, value in found.items()}


def given_row(schema: Schema, form: str, member: int, tier: str) -> Any:
    row: dict[str, Any] = {
        "member_id": member,
        "tier": bytearray(tier.encode()) if schema["tier"].type.name == "binary" else tier,
    }
    if "tags" in schema:
        row["tags"] = [tier]
    if form == "dict":
        return row
    return Row(row) if form == "row" or schema.python_class is None else schema.python_class(**row)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "get", "delete", "flush", "get_all", "range"]),
        st.sampled_from(["dict", "row", "class"]),
        st.integers(0, 3),
        st.text("abc", max_size=2),
    ),
    max_size=25,
)


@settings(deadline=None)  # the first example pays for imports
@given(STEPS, st.sampled_from(sorted(SHAPES)))
def test_what_a_processor_put_is_what_its_table_holds_whatever_is_done_with_the_object(steps: Any, shape: str) -> None:
    schema = Schema.of(SHAPES[shape])
    table = TableStore("profiles", schema, ("member_id",))
    store, model = MessageStore(table), {}
    for step, form, member, tier in steps:
        if step == "put":
            row = given_row(schema, form, member, tier)
            model[member] = copy.deepcopy(columns(row))
            store.put(member, row)
            changed(row)
        elif step == "get":
            found = store.get(member)
            assert columns(found) == model.get(member)
            if found is not None:
                changed(found)
        elif step == "get_all":
            for key, found in store.get_all([0, 1, 2, 3]).items():
                assert columns(found) == model[key]
                changed(found)
        elif step == "range":
            every = list(store.all())
            assert [(key, columns(row)) for key, row in every] == sorted(model.items())
            for _, row in every:
                changed(row)
        elif step == "delete":
            model.pop(member, None)
            store.delete(member)
        else:
            store.flush()
    store.flush()
    assert sorted(table.rows.to_pylist(), key=lambda row: row["member_id"]) == [model[key] for key in sorted(model)]


class Reuses:
    """A processor with one row for all messages."""

    def __init__(self, config: Any, metrics: Any) -> None:
        self.row: dict[str, Any] = {}

    def process(self, message: Any, store: Any) -> Any:
        self.row.update(member_id=message.key, tier=message.message.tier)
        yield message.key, self.row


def test_a_processor_may_use_one_row_object_for_all_messages() -> None:
    @stream_application("joined")
    def application(app: Any) -> None:
        views = app.input_stream("views", schema="member_id bigint", key="member_id")
        changes = app.side_input("changes", schema=SHAPES["ddl"], key="member_id")
        table = app.table("profiles", key="member_id", side_inputs=[changes], schema=SHAPES["ddl"], processor=Reuses)
        views.join(table, how="left", id="join").send_to(app.output_stream("out"))

    driver = TestDriver(application)
    driver.pipe("changes", [{"member_id": n, "tier": f"t{n}"} for n in (1, 2, 3)]).pipe(
        "views", [{"member_id": n} for n in (1, 2, 3)]
    ).run()
    assert [(row.member_id, row.tier) for row in driver.output("out")] == [(1, "t1"), (2, "t2"), (3, "t3")]


# -- what a low-level task asks
# ------------------------------------------------------------------------------------------


def asked_twice(declare: Callable[[Any], Any], rows: list[dict[str, Any]] = []) -> list[Any]:  # noqa: B006
    """Return the values that a task gets of the key 1, first and once more when it has changed that."""
    seen: list[Any] = []

    class Asks(InitableTask, StreamTask):
        def init(self, context: Any) -> None:
            self.table = context.get_table("profiles")

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            for _ in range(2):
                found = self.table.get(1)
                seen.append(copy.deepcopy(columns(found)))
                changed(found)

    @task_application("asks")
    def application(app: Any) -> None:
        app.input_stream("views", schema="member_id bigint", key="member_id")
        declare(app)
        app.task(Asks)

    driver = TestDriver(application)
    if rows:
        driver.pipe("changes", rows)
    driver.pipe("views", [{"member_id": 1}]).run()
    return seen


@pytest.mark.parametrize("shape", ["Profile", "Plain", "Tagged", "nested"])
def test_a_row_of_a_table_may_be_changed_by_whoever_got_it(shape: str) -> None:
    row = {"member_id": 1, "tier": "gold", **({"tags": ["a"]} if "tags" in Schema.of(SHAPES[shape]) else {})}

    def declare(app: Any) -> None:
        app.table(
            "profiles", key="member_id", side_inputs=[app.side_input("changes", schema=SHAPES[shape], key="member_id")]
        )

    assert asked_twice(declare, [row]) == [row, row]


@pytest.mark.parametrize("schema", [None, "member_id bigint, tier string, tags array<string>"])
def test_a_row_in_the_cache_of_a_remote_table_may_be_changed_by_whoever_got_it(schema: str | None) -> None:
    def declare(app: Any) -> None:
        app.remote_table("profiles", key="member_id", schema=schema, reader=read, cache_rows=10, cache_ttl="1 hour")

    row = {"member_id": 1, "tier": "gold", "tags": ["a"]}

    def read(key: int) -> Any:
        return copy.deepcopy(row)

    assert asked_twice(declare) == [row, row]


def test_a_reader_of_a_remote_table_may_use_one_row_object_for_all_keys() -> None:
    reused: dict[str, Any] = {}
    seen: list[Any] = []

    def read(key: int) -> Any:
        reused.update(member_id=key)
        return reused

    class Asks(InitableTask, StreamTask):
        def init(self, context: Any) -> None:
            self.table = context.get_table("profiles")

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            seen.append([self.table.get(key)["member_id"] for key in (1, 2, 1)])

    @task_application("asks")
    def application(app: Any) -> None:
        app.input_stream("views", schema="member_id bigint", key="member_id")
        app.remote_table("profiles", key="member_id", reader=read, cache_rows=10, cache_ttl="1 hour")
        app.task(Asks)

    TestDriver(application).pipe("views", [{"member_id": 1}]).run()
    assert seen == [[1, 2, 1]]


def test_a_function_that_joins_a_remote_table_may_change_the_row() -> None:
    def read(key: int) -> Any:
        return {"member_id": key, "tags": ["a"]}

    def with_tags(view: Any, row: Any) -> Any:
        row["tags"].append("changed")
        return {"member_id": view.member_id, "tags": len(row["tags"])}

    @stream_application("joined")
    def application(app: Any) -> None:
        views = app.input_stream("views", schema="member_id bigint", key="member_id")
        table = app.remote_table(
            "profiles",
            key="member_id",
            reader=read,
            schema="member_id bigint, tags array<string>",
            cache_rows=10,
            cache_ttl="1 hour",
        )
        views.join(table, with_tags, schema="member_id bigint, tags int", id="join").send_to(app.output_stream("out"))

    driver = (
        TestDriver(application)
        .pipe("views", [{"member_id": 1}, {"member_id": 1}])
        .pipe("views", [{"member_id": 1}])
        .run()
    )
    assert [row.tags for row in driver.output("out")] == [2, 2, 2]


def test_rejects_a_row_that_cannot_be_copied_into_the_cache() -> None:
    def declare(app: Any) -> None:
        app.remote_table(
            "profiles", key="member_id", reader=lambda key: threading.Lock(), cache_rows=10, cache_ttl="1 hour"
        )

    with pytest.raises(RemoteTableError, match=r"'profiles' returned .* cannot be copied for the cache"):
        asked_twice(declare)


# -- what is sent
# --------------------------------------------------------------------------------------------------------


def test_a_task_may_send_one_object_again_and_again() -> None:
    class Sends(StreamTask):
        def __init__(self) -> None:
            self.row: dict[str, Any] = {}

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            self.row.update(member_id=envelope.message.member_id)
            collector.send("out", self.row)

    @task_application("sends")
    def application(app: Any) -> None:
        app.input_stream("views", schema="member_id bigint", key="member_id")
        app.output_stream("out", schema="member_id bigint")
        app.task(Sends)

    driver = TestDriver(application).pipe("views", [{"member_id": n} for n in (1, 2, 3)]).run()
    assert [row.member_id for row in driver.output("out")] == [1, 2, 3]


def test_a_generator_may_yield_one_object_again_and_again() -> None:
    def twice(view: Any) -> Any:
        row: dict[str, Any] = {}
        for times in (1, 2):
            row.update(member_id=view.member_id, times=times)
            yield row

    @stream_application("app")
    def application(app: Any) -> None:
        views = app.input_stream("views", schema="member_id bigint", key="member_id")
        views.flat_map(twice, schema="member_id bigint, times int").send_to(app.output_stream("out"))

    driver = TestDriver(application).pipe("views", [{"member_id": n} for n in (1, 2)]).run()
    assert [(row.member_id, row.times) for row in driver.output("out")] == [(1, 1), (1, 2), (2, 1), (2, 2)]


class Store(dict[Any, Any]):
    def put(self, key: Any, value: Any) -> None:
        self[key] = value

    def delete(self, key: Any) -> None:
        self.pop(key, None)


def test_null_keys_are_left_out_and_counted() -> None:
    store = Store()
    assert apply_entries(cast(Any, store), [(None, 1), ("a", 2), (None, None)]) == 2
    assert store == {"a": 2}
