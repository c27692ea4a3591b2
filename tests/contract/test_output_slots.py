"""The contract of slots, over every kind of system that replaces what an earlier run wrote, and every kind of place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.errors import TopicError
from airflow_samza.system_kinds import find_kind, kinds
from airflow_samza.systems.capabilities import RemembersWriters, ReplacesSlots
from airflow_samza.systems.output_slots import OutputSlot
from tests.support.budgets import nightly_but
from tests.support.iceberg_catalogs import CATALOGS, binding_of
from tests.support.slotted import Slotted, day

PLACES = [
    "memory",
    "log",
    pytest.param("log on s3", marks=pytest.mark.nightly),
    "files",
    "iceberg",
    pytest.param("iceberg on rest", marks=pytest.mark.extended),
    *nightly_but((), [f"iceberg on {kind}" for kind in CATALOGS[2:]]),
    "delta",
    pytest.param("delta on s3", marks=pytest.mark.nightly),
    pytest.param("files on s3", marks=pytest.mark.extended),
    pytest.param("files on hdfs", marks=[pytest.mark.hdfs, pytest.mark.nightly]),
    pytest.param("log on hdfs", marks=[pytest.mark.hdfs, pytest.mark.nightly]),
]


@pytest.fixture(params=PLACES)
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Slotted]:
    kind, _, place = str(request.param).partition(" on ")
    if kind == "iceberg" and place:
        with binding_of(place, tmp_path, request) as options:
            yield Slotted(kind, "", options)
    elif place == "s3":
        yield Slotted(kind, request.getfixturevalue("s3").url(f"slots/{tmp_path.parent.name}/{tmp_path.name}"))
    elif place == "hdfs":
        yield Slotted(kind, f"{request.getfixturevalue('hdfs').webhdfs}{tmp_path}")
    else:
        yield Slotted(kind, str(tmp_path))


def test_these_kinds_replace_slots() -> None:
    found = [kind for kind in kinds() if (known := find_kind(kind)) and issubclass(known.load(), ReplacesSlots)]
    assert found == ["memory", "log", "files", "iceberg", "delta"]


@pytest.mark.parametrize("slot", [None, day(1)], ids=["of no slot", "of a day"])
def test_a_run_of_the_same_name_under_another_root_is_rejected(output: Slotted, slot: OutputSlot | None) -> None:
    assert isinstance(output.system, ReplacesSlots)
    output.publish("monday", [1], slot, root="here")
    said = "generation .* of app/monday/stage has committed, .* under another root, whose identity is 'here'"
    for generation, ids in itertools.product(("1.1", "1.2", "2.1"), ([2], [])):
        with pytest.raises(TopicError, match=said):
            output.publish("monday", ids, slot, generation, root="there")
    with pytest.raises(TopicError, match=said):
        output.publish("monday", [2], slot, epoch=1, root="there")
    with pytest.raises(TopicError, match=said):
        output.system.reject_namesake(output.stream, "app/monday/stage", "there")
    output.system.reject_namesake(output.stream, "app/monday/stage", "here")
    assert output.rows() == [1]
    output.publish("monday", [3], slot, "1.2", root="here")
    output.publish("tuesday", [4], day(2), root="there")
    assert output.rows() == [3, 4]


def test_another_run_replaces_its_slot_and_nothing_else(output: Slotted) -> None:
    output.append([100])
    output.publish("monday", [1, 2], day(1))
    output.publish("tuesday", [3], day(2))
    output.publish("backfill", [4], day(1))
    assert output.rows() == [3, 4, 100]
    output.publish("tuesday-again", [], day(2))
    assert output.rows() == [4, 100]


def test_publishing_again_changes_nothing(output: Slotted) -> None:
    output.publish("monday", [1], day(1))
    work = output.publication("backfill", [4, 5], day(1))
    for _ in range(2):
        assert output.system.publish(output.stream, work)["rows"] == 2
        assert output.rows() == [4, 5]


def test_epochs_and_stages_of_the_run_that_holds_a_slot_add_up(output: Slotted) -> None:
    output.publish("monday", [1], day(1), epoch=0, final=False)
    output.publish("monday", [2], day(1), epoch=1)
    output.publish("monday", [3], day(1), stage="other")
    assert output.rows() == [1, 2, 3]
    output.publish("backfill", [4], day(1), epoch=2, final=False)  # of all stages and epochs, with the first rows
    assert output.rows() == [4]
    output.publish("backfill", [5], day(1), epoch=5)
    output.publish("backfill", [6], day(1), stage="other")
    assert output.rows() == [4, 5, 6]


def test_a_clear_of_a_stage_replaces_its_own_output_and_keeps_the_slot(output: Slotted) -> None:
    output.publish("monday", [1], day(1))
    output.publish("monday", [2], day(1), stage="other")
    output.publish("monday", [3], day(1), "1.2")
    assert output.rows() == [2, 3]
    output.publish("monday", [4], day(1), "2.1")
    output.publish("monday", [5], day(1), "2.1", stage="other")
    assert output.rows() == [4, 5]


def test_a_run_that_was_replaced_publishes_no_more(output: Slotted) -> None:
    output.publish("monday", [1], day(1), epoch=0, final=False)
    output.publish("backfill", [4], day(1))
    late = output.publication("monday", [2], day(1), epoch=1)
    for _ in range(2):
        with pytest.raises(TopicError, match=r"The run 'monday' may not publish .* the run 'backfill' has replaced"):
            output.system.publish(output.stream, late)
    with pytest.raises(TopicError, match="has replaced"):  # another stage of the run, which would be a part alone
        output.publish("monday", [3], day(1), stage="other")
    assert output.rows() == [4]


def test_a_run_that_was_replaced_replaces_in_turn_when_it_is_cleared(output: Slotted) -> None:
    output.publish("monday", [1], day(1))
    output.publish("backfill", [4], day(1))
    output.publish("monday", [2], day(1), "1.2")
    assert output.rows() == [2]
    with pytest.raises(TopicError, match="has replaced"):
        output.publish("backfill", [4], day(1), epoch=1)
    output.publish("backfill", [5], day(1), "2.1")
    assert output.rows() == [5]


def test_a_replaced_run_of_several_stages_replaces_again_as_a_whole_only(output: Slotted) -> None:
    output.publish("monday", [1], day(1))
    output.publish("monday", [2], day(1), stage="other")
    output.publish("backfill", [4], day(1))
    with pytest.raises(TopicError, match="has replaced") as caught:
        output.publish("monday", [3], day(1), "1.2")
    assert "clear its plan task" in caught.value.hint
    assert output.rows() == [4]
    output.publish("monday", [5], day(1), "2.1")
    output.publish("monday", [6], day(1), "2.1", stage="other")
    assert output.rows() == [5, 6]


def test_a_slot_of_another_application_is_rejected_by_name(output: Slotted) -> None:
    output.publish("monday", [1], day(1, application="mine", app_id="2"))
    for slot in (day(1), day(1, application="mine"), day(1, config="0123456789ab")):
        with pytest.raises(TopicError, match=r"the run 'monday' of the application 'mine' \(app_id '2'\) wrote"):
            output.publish("backfill", [4], slot)
    output.publish("tuesday", [2], day(2))
    assert output.rows() == [1, 2]


def test_overlapping_intervals_of_one_application_are_rejected(output: Slotted) -> None:
    output.publish("days", [1], day(3, 2))
    for slot in (day(2, 2), day(3), day(4), day(4, 3), day(2, 5)):
        with pytest.raises(TopicError, match=r"the run 'days' wrote for .* which overlaps"):
            output.publish("other", [4], slot)
    output.publish("before", [2], day(2))
    output.publish("after", [3], day(5))
    assert output.rows() == [1, 2, 3]
    empty = ("2013-01-03T12:00:00+00:00",) * 2  # an interval of no length is of no time that another one is of
    output.publish("moment", [5], day(1).__class__("app", "1", empty))
    assert output.rows() == [1, 2, 3, 5]


def test_partition_keys_and_configurations_are_slots_of_their_own(output: Slotted) -> None:
    slots = [
        day(1),
        day(1, partition_key="nl"),
        day(1, partition_key="be"),
        day(1, config="0123456789ab"),
        day(1).__class__("app", "1", None, "nl"),
    ]
    for number, slot in enumerate(slots):
        output.publish(f"first-{number}", [number], slot)
    assert output.rows() == [0, 1, 2, 3, 4]
    for number, slot in enumerate(slots):
        output.publish(f"second-{number}", [10 + number], slot)
    assert output.rows() == [10, 11, 12, 13, 14]
    output.publish("hours", [20], day(1, 2, partition_key="fr"))  # of another part: nothing lies there twice
    assert output.rows() == [10, 11, 12, 13, 14, 20]


def test_what_is_of_no_slot_is_never_replaced_and_replaces_nothing_of_others(output: Slotted) -> None:
    output.publish("monday", [1], None)
    output.publish("backfill", [4], day(1))
    output.publish("backfill-2", [5], day(1))
    output.publish("tuesday", [2], None)
    assert output.rows() == [1, 2, 5]
    output.publish("monday", [3], None, "1.2")
    assert output.rows() == [2, 3, 5]


def test_a_run_may_leave_its_slot_and_come_back(output: Slotted) -> None:
    output.publish("old", [0], day(1), epoch=0, final=False)
    output.publish("monday", [1], day(1))
    output.publish("monday", [2], None, "2.1")
    assert output.rows() == [2]
    with pytest.raises(TopicError, match="has replaced"):
        output.publish("old", [9], day(1), epoch=1)
    output.publish("monday", [3], day(1), "3.1")
    assert output.rows() == [3]
    output.publish("monday", [4], day(2), "4.1")
    output.publish("backfill", [5], day(1))
    assert output.rows() == [4, 5]


def test_a_lower_generation_of_a_replaced_one_is_rejected_at_another_slot_too(output: Slotted) -> None:
    output.publish("monday", [1], day(2), "2.1")
    output.publish("backfill", [4], day(2))
    with pytest.raises(TopicError, match=r"(generation 2\.1 of it has published|2\.1 has taken over)"):
        output.publish("monday", [2], day(1), "1.1")
    assert output.rows() == [4]


def test_plans_learn_who_wrote_the_slots_that_meet_one(output: Slotted) -> None:
    assert output.slots.slot_writers(output.stream, day(1)) == []
    output.publish("first", [1], day(1))
    output.publish("monday", [1], day(1))
    output.publish("nl", [1], day(1, config="0123456789ab"))
    output.publish("tuesday", [1], day(2))
    output.publish("theirs", [1], day(3, application="theirs"))
    found = output.slots.slot_writers(output.stream, day(1))
    assert {writer.run_id: writer.slot for writer in found} == {
        "monday": day(1),
        "nl": day(1, config="0123456789ab"),
    }
    assert [writer.run_id for writer in output.slots.slot_writers(output.stream, day(2, 2))] == ["tuesday"]
    assert [writer.producer for writer in output.slots.slot_writers(output.stream, day(3))] == ["theirs/theirs/stage"]


def test_plans_learn_what_lies_outside_of_slots(output: Slotted) -> None:
    def candidates() -> list[str]:
        return [f"app/{run}/stage" for run in ("none", "old", "monday")]

    output.publish("monday", [1], day(1))
    nobody = (pytest.fail("nothing lies outside") for _ in range(1))
    assert output.slots.outside_slots(output.stream, nobody) == []
    output.publish("old", [2], None)
    assert output.slots.outside_slots(output.stream, candidates()) == ["app/old/stage"]


def test_a_producer_knows_its_successor(output: Slotted) -> None:
    output.publish("monday", [1], day(1))
    assert output.slots.successor(output.stream, "app/monday/stage") is None
    output.publish("backfill", [4], day(1))
    assert output.slots.successor(output.stream, "app/monday/stage") == "app/backfill/stage"
    for name in ("backfill", "nobody"):
        assert output.slots.successor(output.stream, f"app/{name}/stage") is None
    output.publish("monday", [2], day(1), "1.2")
    assert output.slots.successor(output.stream, "app/monday/stage") is None
    assert output.slots.successor(output.stream, "app/backfill/stage") == "app/monday/stage"


def test_a_replaced_producer_is_remembered(output: Slotted) -> None:
    if not isinstance(output.system, RemembersWriters):
        return
    output.publish("monday", [1], day(1), "1.3")
    output.publish("backfill", [4], day(1))
    assert output.system.standing(output.stream, "app/monday/stage") == "1.3"
