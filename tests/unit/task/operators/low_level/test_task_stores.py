"""Stores by name: typed, per task, kept from epoch to epoch, and gone with an epoch that fails."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_samza import Row, StreamTask, task_application
from airflow_samza.errors import DuplicateId, InvalidApplication, MessageError, SchemaError, StoreError, UnknownName
from airflow_samza.planner.explain import explain
from airflow_samza.testing import TestDriver


@dataclass
class Visits:
    count: int
    last: datetime.datetime
    pages: list[str] = field(default_factory=list)


KEY_AND_VALUE = {"key": "string", "value": "bigint"}


def driver_of(
    act: Callable[[Any, Any], Any],
    stores: Mapping[str, Any] | None = None,
    *,
    partitions: int = 1,
    bounded: bool = True,
) -> TestDriver:
    """An application whose task calls ``act(context, word)`` for each word, and sends the repr of what that returns."""

    class Acting(StreamTask):
        def init(self, context: Any) -> None:
            self.context = context

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            collector.send("out", {"text": repr(act(self.context, envelope.message.word))})

    def describe(app: Any) -> None:
        app.input_stream("words", schema="word string", bounded=bounded)
        app.output_stream("out", schema="text string")
        for name, types in (stores or {"counts": KEY_AND_VALUE}).items():
            app.store(name, **types)
        app.task(Acting)

    return TestDriver(task_application("acting")(describe), partitions=partitions)


def words(*said: str) -> list[dict[str, str]]:
    return [{"word": word} for word in said]


def said(driver: TestDriver) -> list[str]:
    return [row.text for row in driver.output("out")]


def once(act: Callable[[Any], Any], **stores: Any) -> Any:
    """Return the result of ``act(store)`` inside a task that has one store."""
    ((name, types),) = stores.items() if stores else [("counts", KEY_AND_VALUE)]
    made = []
    driver = driver_of(lambda context, word: made.append(act(context.get_store(name))), {name: types})
    driver.pipe("words", words("go")).run()
    return made[0]


def count(context: Any, word: str) -> int:
    store = context.get_store("counts")
    store.put(word, (store.get(word) or 0) + 1)
    return int(store.get(word))


def test_a_task_reads_what_it_wrote() -> None:
    assert said(driver_of(count).pipe("words", words("a", "b", "a")).run()) == ["1", "1", "2"]


def test_each_task_has_its_own() -> None:
    driver = (
        driver_of(count, partitions=2).pipe("words", words("a"), partition=0).pipe("words", words("a"), partition=1)
    )
    assert said(driver.run()) == ["1", "1"]


def test_a_bounded_run_starts_empty() -> None:
    driver = driver_of(count).pipe("words", words("a"))
    assert said(driver.run()) == said(driver.run()) == ["1"]


@pytest.mark.parametrize("epoch_messages", [1, 2, None])
def test_they_are_kept_from_epoch_to_epoch_and_from_run_to_run(epoch_messages: int | None) -> None:
    driver = driver_of(count, bounded=False)
    driver.pipe("words", words("a", "b", "a")).step(epoch_messages=epoch_messages)
    driver.pipe("words", words("a")).stop(epoch_messages=epoch_messages)
    driver.pipe("words", words("a")).step(epoch_messages=epoch_messages)
    assert said(driver) == ["1", "1", "2", "3", "4"]


def test_an_epoch_that_fails_leaves_nothing() -> None:
    fails = [True]

    def act(context: Any, word: str) -> int:
        found = count(context, word)
        if word == "boom" and fails:
            fails.pop()
            raise ValueError("boom")
        return found

    driver = driver_of(act, bounded=False).pipe("words", words("a")).step()
    driver.pipe("words", words("a", "boom"))
    with pytest.raises(MessageError, match="boom"):
        driver.step()
    assert said(driver.step()) == ["1", "2", "1"]


def test_entries_come_in_order_and_several_at_a_time() -> None:
    def act(store: Any) -> Any:
        store.put_all({"b": 2, "a": 1, "c": 3})
        store.put_all([("d", 4), ("a", None)])
        store.delete("c")
        store.put("e", 5)
        store.put("e", None)
        return list(store.all()), list(store.range("b", "d")), list(store.range("c")), store.get_all(["a", "b"])

    assert once(act) == ([("b", 2), ("d", 4)], [("b", 2)], [("d", 4)], {"b": 2})


def test_values_are_messages_where_columns_are_declared() -> None:
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)

    def act(store: Any) -> Any:
        store.put((7, at.date()), Visits(1, at, ["home"]))
        return store.get((7, at.date())), list(store.all())

    found, entries = once(act, visits={"key": "member bigint, day date", "value": Visits})
    assert found == Visits(1, at, ["home"])
    assert entries == [((7, at.date()), found)]
    assert once(lambda store: (store.put(1, {"n": 2}), store.get(1))[1], rows={"key": int, "value": "n int"}) == Row(
        n=2
    )


@pytest.mark.parametrize("again", [False, True])
def test_what_a_store_gives_may_be_changed_without_changing_the_store(again: bool) -> None:
    def act(context: Any, word: str) -> Any:
        store = context.get_store("lists")
        if word == "put":
            mine = [1]
            store.put("k", mine)
            mine.append(2)
        store.get("k").append(3)
        return store.get("k")

    driver = driver_of(act, {"lists": {"key": str, "value": list[int]}}, bounded=False)
    driver.pipe("words", words("put", "look")).step(epoch_messages=1 if again else None)
    assert said(driver) == ["[1]", "[1]"]


@pytest.mark.parametrize(
    ("types", "act", "sentence"),
    [
        (KEY_AND_VALUE, lambda store: store.get(7), r"'counts' is asked for the key 7: key is 7, which is no string"),
        (KEY_AND_VALUE, lambda store: store.get(None), r"the key None: key is None, and is declared never null"),
        (
            KEY_AND_VALUE,
            lambda store: store.put("a", "b"),
            r"puts 'b' into the store 'counts': value is 'b', which is no bigint",
        ),
        (KEY_AND_VALUE, lambda store: store.put("a", 2**63), r"which is no bigint"),
        (KEY_AND_VALUE, lambda store: store.put("a", True), r"True, which is no bigint"),
        (KEY_AND_VALUE, lambda store: store.put("\ud800", 1), r"which is no string"),
        (KEY_AND_VALUE, lambda store: list(store.range(1)), r"the key 1: key is 1, which is no string"),
        ({"key": "a int, b int", "value": int}, lambda store: store.get(1), r"it is no tuple of 2 values"),
        (
            {"key": "a int, b int", "value": int},
            lambda store: store.get((1, None)),
            r"b is None, and is declared never null",
        ),
        ({"key": int, "value": Visits}, lambda store: store.put(1, {"count": 1}), r"it lacks last, pages"),
        (
            {"key": int, "value": Visits},
            lambda store: store.put(1, 5),
            r"a message is a dataclass instance, a Row or a dict",
        ),
    ],
)
def test_what_does_not_fit_the_declaration_is_said_with_the_line(types: Any, act: Any, sentence: str) -> None:
    with pytest.raises(StoreError, match=sentence) as caught:
        once(act, counts=types)
    assert "test_task_stores.py" in str(caught.value)
    assert caught.value.hint.startswith(("The declared key is: ", "The declared value is: "))


def test_an_unknown_store_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"no store 'count' \(.*test_task_stores\.py:\d+\)") as caught:
        driver_of(lambda context, word: context.get_store("count")).pipe("words", words("a")).run()
    assert caught.value.hint == "Did you mean 'counts'? Its stores are counts."


@pytest.mark.parametrize(
    ("types", "kind", "sentence"),
    [
        (
            {"key": "double", "value": int},
            InvalidApplication,
            "has the type double, which keys cannot have",
        ),
        ({"key": "a int, b array<int>", "value": int}, InvalidApplication, "array<int>"),
        ({"key": "strng", "value": int}, SchemaError, "'strng' where a type should be"),
        ({"key": str, "value": "n intt"}, SchemaError, "'intt' where a type should be"),
        ({"key": str, "value": set}, SchemaError, "The type <class 'set'> of the value has no column type"),
        ({"key": str, "value": [1]}, SchemaError, r"The type \[1\] of the value has no column type"),
    ],
)
def test_a_declaration_that_cannot_be_is_rejected_at_the_call(types: Any, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence) as caught:
        driver_of(count, {"counts": types})
    assert "test_task_stores.py" in str(caught.value)


def test_the_plan_names_the_stores() -> None:
    plan = driver_of(count, {"counts": KEY_AND_VALUE, "seen": KEY_AND_VALUE}).plan
    assert dict(plan.operator("acting-1-task-task").details)["stores"] == "counts, seen"
    assert "stores counts, seen" in explain(plan)


def test_a_store_is_declared_once() -> None:
    def describe(app: Any) -> None:
        app.store("counts", key=str, value=int)
        app.store("counts", key=str, value=int)

    with pytest.raises(DuplicateId, match=r"store 'counts' is declared twice: first at .*test_task_stores\.py:\d+"):
        task_application("twice")(describe).spec()


# -- on the host's disk ------------------------------------------------------------------------------------------------


def on_disk(folder: Any, **more: str) -> TestDriver:
    class Counting(StreamTask):
        def init(self, context: Any) -> None:
            self.store = context.get_store("counts")

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            word = envelope.message.word
            self.store.put(word, (self.store.get(word) or 0) + 1)
            collector.send("out", {"text": f"{word} {self.store.get(word)}"})

    def describe(app: Any) -> None:
        app.input_stream("words", schema="word string", bounded=False)
        app.output_stream("out", schema="text string")
        app.store("counts", key="string", value="bigint", backend="rocksdb", ttl="1 minute")
        app.task(Counting)

    config = {"job.store.local.dir": str(folder), **more}
    return TestDriver(task_application("counting", config=config)(describe), config=config)


@pytest.mark.parametrize("keeps_host", [True, False])
def test_a_store_on_disk_goes_from_epoch_to_epoch_whether_or_not_the_host_still_has_it(
    tmp_path: Any, keeps_host: bool
) -> None:
    driver = on_disk(tmp_path)
    expected = []
    for epoch in range(5):
        driver.pipe("words", words("a", f"b{epoch}")).step()
        expected += [f"a {epoch + 1}", f"b{epoch} 1"]
        assert said(driver) == expected
        assert not list(tmp_path.rglob("work-*"))
        if not keeps_host:
            shutil.rmtree(tmp_path / "rocksdb")


def test_an_entry_with_a_time_to_live_is_gone_by_the_drivers_clock(tmp_path: Any) -> None:
    driver = on_disk(tmp_path)
    driver.pipe("words", words("a", "a")).step()
    driver.advance("2 minutes")
    driver.pipe("words", words("a")).step()
    assert said(driver) == ["a 1", "a 2", "a 1"]


@pytest.mark.parametrize(
    "factory", ["memory", "org.apache.samza.storage.kv.inmemory.InMemoryKeyValueStorageEngineFactory"]
)
def test_the_configuration_says_another_backend_and_another_time_to_live(tmp_path: Any, factory: str) -> None:
    driver = on_disk(tmp_path, **{"stores.counts.factory": factory, "stores.counts.rocksdb.ttl.ms": "-1"})
    driver.pipe("words", words("a")).step()
    driver.advance("2 minutes")
    driver.pipe("words", words("a")).step()
    assert said(driver) == ["a 1", "a 2"]
    assert not list(tmp_path.iterdir())


def test_a_backend_that_does_not_exist_is_rejected() -> None:
    with pytest.raises(InvalidApplication, match="The store 'counts' has backend='disk'") as caught:
        driver_of(count, {"counts": {**KEY_AND_VALUE, "backend": "disk"}})
    assert "rocksdb" in caught.value.hint
