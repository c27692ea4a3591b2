"""Rules C1–C3, C5–C7, C9: the bookkeeping of end-of-stream messages and the counting of their producers."""

from __future__ import annotations

import json

import pytest

from airflow_samza.control.end_of_stream import (
    EndOfStreamBookkeeping,
    PartitionEnded,
    output_sources,
)
from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import ControlError


def end(task: str | None, count: int = 0, *, final: bool = True) -> EndOfStreamMessage:
    return EndOfStreamMessage(task, count, stream_id="I", final=final)


def test_a_partition_ends_when_all_its_producers_have_spoken() -> None:
    ends = EndOfStreamBookkeeping([("I", 0), ("I", 1)])
    assert ends.update("I", 0, end("a", 2)) is None
    assert ends.update("I", 1, end("a", 2)) is None
    assert ends.update("I", 0, end("b", 2)) == PartitionEnded("I", 0)
    assert (ends.stream_ended("I"), ends.all_ended()) == (False, False)
    assert ends.update("I", 1, end("b", 2)) == PartitionEnded("I", 1)
    assert (ends.stream_ended("I"), ends.all_ended()) == (True, True)


def test_a_message_without_a_task_name_ends_its_partition_at_once() -> None:
    ends = EndOfStreamBookkeeping([("I", 1)], {"I": 4})
    assert ends.update("I", 1, end(None)) == PartitionEnded("I", 1)
    assert ends.update("I", 1, end(None)) is None
    assert ends.update("I", 1, end("late", 4)) is None


def test_duplicates_do_not_count_and_a_stray_name_cannot_unend() -> None:
    ends = EndOfStreamBookkeeping([("I", 0)])
    for _ in range(3):
        assert ends.update("I", 0, end("a", 2)) is None
    assert ends.update("I", 0, end("b", 2)) is not None
    assert ends.update("I", 0, end("stray", 2)) is None
    assert ends.all_ended()


def test_a_task_count_that_changes_is_an_error_that_names_the_place() -> None:
    ends = EndOfStreamBookkeeping([("I", 0), ("I", 1)])
    ends.update("I", 0, end("a", 2))
    with pytest.raises(
        ControlError, match=r"end-of-stream message of 'b' at I/1 offset 7 has the task count 3; .* said 2"
    ):
        ends.update("I", 1, end("b", 3), offset=7)


def test_a_task_count_below_one_is_an_error() -> None:
    with pytest.raises(ControlError, match="task count 0"):
        EndOfStreamBookkeeping([("I", 0)]).update("I", 0, end("a", 0))


def test_the_plans_count_serves_messages_without_one() -> None:
    ends = EndOfStreamBookkeeping([("I", 0)], {"I": 2})
    assert ends.update("I", 0, end("a")) is None
    assert ends.update("I", 0, end("b")) == PartitionEnded("I", 0)


def test_side_inputs_stay_outside() -> None:
    ends = EndOfStreamBookkeeping([("I", 0)])
    assert ends.update("profiles", 0, end(None)) is None
    assert not ends.all_ended()
    ends.update("I", 0, end(None))
    assert ends.all_ended()


def test_one_slice_end_makes_the_end_not_final() -> None:
    ends = EndOfStreamBookkeeping([("I", 0)])
    ends.update("I", 0, end("a", 2, final=False))
    assert ends.update("I", 0, end("b", 2)) == PartitionEnded("I", 0, final=False)
    assert not ends.is_final("I")


def test_a_restart_between_two_messages_still_ends_and_emits_once() -> None:
    before = EndOfStreamBookkeeping([("I", 0), ("J", 0)])
    before.update("I", 0, end("a", 2, final=False))
    before.update("J", 0, end(None))
    saved = json.loads(json.dumps(before.checkpoint()))
    after = EndOfStreamBookkeeping([("I", 0), ("J", 0)])
    after.restore(saved)
    assert after.update("J", 0, end(None)) is None
    assert after.update("I", 0, end("b", 2)) == PartitionEnded("I", 0, final=False)
    assert after.all_ended()


def test_a_checkpoint_may_leave_out_the_producers_of_what_has_ended() -> None:
    ends = EndOfStreamBookkeeping([("I", 0), ("J", 0)])
    for name in ("b", "a"):
        ends.update("I", 0, end(name, 2))
        ends.update("J", 0, end(name, 3))
    named = {entry["stream"]: (entry["tasks"], entry["ended"]) for entry in ends.checkpoint(names_of_ended=False)}
    assert named == {"I": ([], True), "J": (["a", "b"], False)}
    after = EndOfStreamBookkeeping([("I", 0), ("J", 0)])
    after.restore(ends.checkpoint(names_of_ended=False))
    assert after.update("J", 0, end("c", 3)) == PartitionEnded("J", 0)
    assert after.all_ended()


def test_without_the_checkpoint_the_partition_never_ends() -> None:
    after = EndOfStreamBookkeeping([("I", 0)])
    assert after.update("I", 0, end("c", 3)) is None
    assert after.missing() == {("I", 0): (1, 3)}


def test_an_end_in_the_checkpoint_needs_no_further_message() -> None:
    after = EndOfStreamBookkeeping([("I", 0)])
    after.restore([{"stream": "I", "partition": 0, "total_tasks": 2, "tasks": ["a", "b"]}])
    assert after.all_ended()


def test_partitions_that_this_task_no_longer_owns_are_passed_over_in_a_checkpoint() -> None:
    before = EndOfStreamBookkeeping([("I", 0), ("J", 0)])
    for stream in ("I", "J"):
        before.update(stream, 0, end("a", 2))
    after = EndOfStreamBookkeeping([("J", 0)])
    after.restore(before.checkpoint())
    assert after.update("J", 0, end("b", 2)) == PartitionEnded("J", 0)


def test_a_restored_task_count_is_held_against_later_messages() -> None:
    after = EndOfStreamBookkeeping([("I", 0)])
    after.restore([{"stream": "I", "partition": 0, "total_tasks": 3, "tasks": ["a"]}])
    with pytest.raises(ControlError, match="has the task count 2; an earlier message said 3"):
        after.update("I", 0, end("b", 2))


def test_intermediate_to_inputs() -> None:
    inputs_of = {
        "m1": ["i1"],
        "f2": ["i2"],
        "f3": ["i3"],
        "p1": ["f3"],
        "m3": ["ip1"],
        "j1": ["m1", "f2"],
        "p2": ["j1"],
        "s1": ["ip2"],
        "j2": ["m3", "f2"],
        "s2": ["j2"],
    }
    streams = {"i1": "input1", "i2": "input2", "i3": "input3", "ip1": "p1", "ip2": "p2"}
    writers = {"p1": ["p1"], "p2": ["p2"], "output1": ["s1"], "output2": ["s2"]}
    assert output_sources(inputs_of, streams, writers) == {
        "p1": {"input3"},
        "p2": {"input1", "input2"},
        "output1": {"p2"},
        "output2": {"p1", "input2"},
    }


def test_c7_inputs_are_found_beside_an_input_to_which_two_ways_lead() -> None:
    inputs_of = {"merge": ["other", "left", "right"], "left": ["i1"], "right": ["i1"], "other": ["i2"]}
    assert output_sources(inputs_of, {"i1": "one", "i2": "two"}, {"out": ["merge"]}) == {"out": {"one", "two"}}


def test_a_cycle_of_operators_does_not_hang_the_walk() -> None:
    assert output_sources({"a": ["b", "i"], "b": ["a"]}, {"i": "in"}, {"out": ["b"]}) == {"out": {"in"}}
