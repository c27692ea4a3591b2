"""Records of commits as properties of a table: what they say, and that a damaged one is an error."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.tables import commits
from airflow_samza.systems.tables.commits import Committed, Slot, TableView, heading, output_digest, slot_key
from tests.support.slotted import day

FIRST = Committed("app/monday/stage", "out", "1.1", 1, 3, ("samza-a-",), 2, 20, "77")
SECOND = Committed("app/backfill/stage", "out", "1.1", 2, 0, ("samza-b-",), 1, 5, "78")


def view(*slots: Slot) -> TableView:
    return TableView.of("web.out", {"owner": "me", **{slot.key: slot.encoded() for slot in slots}})


def test_records_come_back_as_they_were_written() -> None:
    key = slot_key(day(1), FIRST.producer, "out")
    slot = Slot(key, day(1), (FIRST, SECOND))
    none = Slot(slot_key(None, FIRST.producer, "out"), None, (FIRST,))
    assert dict(view(slot, none).slots) == {slot.key: slot, none.key: none}
    assert json.loads(slot.encoded())["commits"][0] == {
        "producer": "app/monday/stage",
        "stream": "out",
        "generation": "1.1",
        "turn": 1,
        "epoch": 3,
        "prefixes": ["samza-a-"],
        "files": 2,
        "rows": 20,
        "snapshot": "77",
        "root": "",
        "partitions": [],
    }


def test_an_older_record_without_the_fields_that_have_defaults_is_read() -> None:
    facts = {"commits": [{"producer": "a/b/c", "stream": "out", "generation": "1.1", "turn": 1, "epoch": 0}]}
    (slot,) = TableView.of("web.out", {"samza.producer.x": json.dumps(facts)}).slots.values()
    assert slot.commits == (Committed("a/b/c", "out", "1.1", 1, 0),)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"commits": [{}]}', '{"commits": [{"producer": 1}]}', "[" * 100_000, "null"]
)
@pytest.mark.parametrize("key", ["samza.slot.abc", "samza.producer.abc"])
def test_a_damaged_record_is_an_error_that_names_its_property(key: str, text: str) -> None:
    with pytest.raises(TopicError, match=rf"The property {key} of the table web\.out is damaged") as error:
        TableView.of("web.out", {key: text})
    assert "older version" in error.value.hint


def test_a_record_of_a_generation_that_is_none_is_damaged() -> None:
    facts = {"commits": [{"producer": "a/b/c", "stream": "out", "generation": "x", "turn": 1, "epoch": 0}]}
    with pytest.raises(TopicError, match="is damaged"):
        TableView.of("web.out", {"samza.producer.x": json.dumps(facts)})


def test_properties_of_others_are_left_alone() -> None:
    assert TableView.of("web.out", {"samza": "x", "samza.made": "true", "samza.slots": "x"}).slots == {}


def test_the_newest_turn_of_a_slot_stands() -> None:
    key = slot_key(day(1), FIRST.producer, "out")
    slot = Slot(key, day(1), (FIRST, SECOND))
    found = view(slot)
    assert [found.owners.stands(*one.owner) for one in slot.commits] == [False, True]
    assert [writer.producer for writer in found.writers(day(1).code)] == [SECOND.producer]
    assert found.successor(FIRST.producer, "out") == SECOND.producer
    assert found.successor(SECOND.producer, "out") is None
    assert found.successor("app/nobody/stage", "out") is None
    assert found.outside() == frozenset()


def test_a_lower_generation_does_not_stand_at_any_slot() -> None:
    first = Slot(slot_key(day(1), FIRST.producer, "out"), day(1), (FIRST,))
    cleared = Committed(FIRST.producer, "out", "1.10", 1, 0)
    none = Slot(slot_key(None, FIRST.producer, "out"), None, (cleared,))
    found = view(first, none)
    assert found.owners.newest == {FIRST.owner[0]: (1, 10)}
    assert not found.owners.stands(*FIRST.owner)
    assert found.owners.stands(*cleared.owner)
    assert found.outside() == {FIRST.producer}


def test_a_commit_takes_the_place_of_the_same_generations_former_one() -> None:
    slot = Slot("samza.slot.x", day(1), (FIRST, SECOND))
    later = Committed(FIRST.producer, "out", "1.1", 1, 4, ("samza-a-",), 3, 30, "79")
    cleared = Committed(FIRST.producer, "out", "1.2", 1, 0)
    assert slot.with_commit(later).commits == (SECOND, later)
    assert slot.with_commit(cleared).commits == (FIRST, SECOND, cleared)


def test_slots_and_producers_have_properties_of_their_own() -> None:
    keys = [
        slot_key(day(1), "a/b/c", "out"),
        slot_key(day(2), "a/b/c", "out"),
        slot_key(day(1, partition_key="nl"), "a/b/c", "out"),
        slot_key(day(1, config="0123"), "a/b/c", "out"),
        slot_key(day(1, application="other"), "a/b/c", "out"),
        slot_key(None, "a/b/c", "out"),
        slot_key(None, "a/b/c", "second"),
        slot_key(None, "a/b", "c/out"),
    ]
    assert len(set(keys)) == len(keys)
    assert slot_key(day(1), "another/run/stage", "second") == keys[0]


def folding(slots: Iterable[tuple[OutputSlot | None, Committed]]) -> dict[str, str]:
    """Return the properties of a table to which commits were made, one after the other."""
    properties: dict[str, str] = {}
    for number, (slot, committed) in enumerate(slots):
        sought = heading(slot, committed.owner[0])
        view = TableView.of("web.out", properties, sought)
        key = slot_key(slot, committed.producer, committed.stream)
        record = view.slots.get(key, Slot(key, slot)).with_commit(committed)
        age = {slot_key(*of): place for place, of in enumerate((a, b.producer, b.stream) for a, b in SLOTS[:number])}

        def age_of(one: Slot, age: dict[str, int] = age) -> int:
            return age.get(one.key, 0)

        values, folded = view.changes({key: record}, properties, age_of)
        properties = {name: value for name, value in {**properties, **values}.items() if name not in folded}
    return properties


SLOTS: list[tuple[OutputSlot | None, Committed]] = [
    (
        day(number) if number % 3 else None if number % 2 else OutputSlot("app", "1", None, f"key {number}"),
        Committed(f"app/run {number}/stage", "out", "1.1", 1, 0, (f"samza-{number:016x}-",), 1, 1, str(number)),
    )
    for number in range(1, 29)
]


@pytest.fixture
def few_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "OPEN_RECORDS", 5)
    monkeypatch.setattr("airflow_samza.systems.tables.folded_records.BLOCK", 4)


@pytest.mark.usefixtures("few_open")
def test_records_that_are_folded_say_what_they_said() -> None:
    properties = folding(SLOTS)
    assert sum(key.startswith(("samza.slot.", "samza.producer.")) for key in properties) <= 5
    view = TableView.of("web.out", properties)
    assert {(one.slot, one.commits) for one in view.slots.values()} == {(slot, (one,)) for slot, one in SLOTS}
    for slot, committed in SLOTS:
        sought = TableView.of("web.out", properties, heading(slot, committed.owner[0]))
        key = slot_key(slot, committed.producer, committed.stream)
        assert sought.slots[key] == view.slots[key]
        by_producer = TableView.of("web.out", properties, heading(None, output_digest(committed.producer, "out")))
        assert by_producer.owners.newest[committed.owner[0]] == (1, 1)
        if slot is not None:
            met = [writer for writer in view.writers(slot.code) if writer.slot.code.meets(slot.code)]
            assert TableView.of("web.out", properties, heading(slot)).writers(slot.code) == met


@pytest.mark.usefixtures("few_open")
def test_a_folded_record_that_a_commit_changes_stands_once() -> None:
    properties = folding(SLOTS)
    slot, first = SLOTS[0]
    assert slot is not None
    again = Committed("app/backfill/stage", "out", "1.1", 2, 0, ("samza-b-",), 1, 5, "78")
    view = TableView.of("web.out", properties, heading(slot, again.owner[0]))
    key = slot_key(slot, first.producer, "out")
    values, folded = view.changes({key: view.slots[key].with_commit(again)}, properties, lambda _: 0)
    properties = {name: value for name, value in {**properties, **values}.items() if name not in folded}
    view = TableView.of("web.out", properties)
    assert view.slots[key].commits == (first, again)
    assert len(view.slots) == len(SLOTS)
    assert not [text for _, text in view.folded.opened(None) if "app/run 1/" in text]


@pytest.mark.usefixtures("few_open")
def test_a_slot_whose_writer_has_gone_on_to_another_one_does_not_stand() -> None:
    moved = Committed("app/run 1/stage", "out", "2.1", 1, 0, ("samza-m-",), 1, 1, "90")
    properties = folding([*SLOTS, (day(40 - 12), moved), *SLOTS[1:12]])
    assert TableView.of("web.out", properties, heading(day(1))).writers(day(1).code) == []


@pytest.mark.parametrize("text", ["x", "1/2//!", "a/b/c/d", "1/2/0000/00000"])
def test_damaged_folded_records_are_an_error(text: str) -> None:
    with pytest.raises(TopicError, match=r"The property samza\.folded of the table web\.out is damaged"):
        TableView.of("web.out", {"samza.folded": text})
