"""Records of commits as properties of a table: what they say, and that a damaged one is an error."""

from __future__ import annotations

import json

import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.iceberg.commits import Committed, Slot, TableView, slot_key
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
    assert [found.stands(slot, one) for one in slot.commits] == [False, True]
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
    assert found.newest(FIRST.producer, "out") == (1, 10)
    assert not found.stands(first, FIRST)
    assert found.stands(none, cleared)
    assert found.outside() == {FIRST.producer}
    assert found.newest(FIRST.producer, "another stream") is None


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
