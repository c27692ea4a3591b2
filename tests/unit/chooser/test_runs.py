"""Choosing among runs, and admission (rules M6, M7)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.chooser.alignment import AlignmentChooser, RoundRobinChooser
from airflow_samza.chooser.batching import BatchingChooser
from airflow_samza.chooser.default import ChooserContext, make_chooser
from airflow_samza.chooser.message_chooser import PartitionHead
from airflow_samza.chooser.runs import Piece, RunChooser, taken
from airflow_samza.chooser.settings import ChooserSettings
from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import ConfigError, StageError
from airflow_samza.systems.system import ControlEnvelope, Envelope, MessageRun, SystemStreamPartition as Ssp
from tests.support.chooser_messages import Run, admitted, chosen
from tests.support.newest_first import NewestFirst

A0, A1, B0 = Ssp("k", "a", 0), Ssp("k", "a", 1), Ssp("k", "b", 0)
RT, FILL = Ssp("k", "rt", 0), Ssp("k", "fill", 0)


def arrow_run(ssp: Ssp, offset: int, *times: int) -> MessageRun:
    return MessageRun(ssp, offset, pa.RecordBatch.from_pydict({"time": list(times)}))


def time_of(piece: Piece[Any]) -> int:
    return int(piece.run.batch.column("time")[piece.first].as_py())


def test_a_time_aligned_chooser_splits_arrow_slices_at_the_exact_message() -> None:
    chooser = RunChooser(AlignmentChooser(time_of))
    sources = {A0: [arrow_run(A0, 10, 1, 2, 6, 7)], B0: [arrow_run(B0, 0, 3, 4, 5, 9)]}
    got = [(run.ssp, run.offset, run.batch["time"].to_pylist()) for run in chosen(chooser, sources)]
    assert got == [(A0, 10, [1, 2]), (B0, 0, [3, 4, 5]), (A0, 12, [6, 7]), (B0, 3, [9])]


def test_control_messages_take_their_place_among_runs() -> None:
    end = ControlEnvelope(A0, 2, EndOfStreamMessage("task-0", 1, stream_id="a"))
    sources: dict[Ssp, list[Envelope]] = {A0: [arrow_run(A0, 0, 1, 2), end], B0: [arrow_run(B0, 0, 1)]}
    got = list(chosen(RunChooser[Envelope](RoundRobinChooser(), grain=None), sources))
    assert [(envelope.ssp, envelope.offset) for envelope in got] == [(A0, 0), (B0, 0), (A0, 2)]
    assert got[-1] is end


def test_whole_runs_are_handed_on_as_they_are() -> None:
    run = arrow_run(A0, 0, 1, 2, 3)
    assert next(chosen(RunChooser(RoundRobinChooser(), grain=None), {A0: [run]})) is run


def test_a_batch_cuts_runs_at_its_size() -> None:
    chooser = RunChooser[Run](BatchingChooser(RoundRobinChooser(), 2))
    sources = {A0: [Run(A0, 0, 5)], B0: [Run(B0, 0, 3)]}
    got = [(run.ssp, run.messages) for run in chosen(chooser, sources)]
    assert got == [(A0, 2), (B0, 2), (A0, 2), (B0, 1), (A0, 1)]


def test_the_head_inside_a_run_is_where_the_gate_ends() -> None:
    settings = ChooserSettings(waits_for_all=True)
    heads = {A0: PartitionHead(1), B0: PartitionHead(None)}
    chooser = RunChooser[Run](make_chooser(ChooserContext(settings, heads=heads)))
    for ssp in (A0, B0):
        chooser.register(ssp, 0)
    chooser.start()
    chooser.update(Run(A0, 0, 3))
    assert chooser.choose(at_most=1) == Run(A0, 0, 1)
    chooser.update(Run(B0, 0, 1))
    assert chooser.choose() == Run(A0, 1, 1)
    assert chooser.choose() == Run(B0, 0, 1)
    assert chooser.choose() == Run(A0, 2, 1)


def test_a_second_run_of_a_partition_is_rejected_while_the_first_is_held() -> None:
    chooser = RunChooser[Run](RoundRobinChooser())
    chooser.update(Run(A0, 0, 2))
    chooser.choose(at_most=1)
    assert chooser.holds(A0)
    with pytest.raises(StageError, match=r"two runs of k\.a/0"):
        chooser.update(Run(A0, 2, 1))


def limited(
    state: Any, limit: int, log: dict[Ssp, int], positions: dict[Ssp, int], batch: int | None = None
) -> tuple[str, Any]:
    """An epoch of ``limit`` messages: the streams in the order in which they are taken, and the state behind it."""
    chooser = RunChooser[Run](make_chooser(ChooserContext(ChooserSettings(batch_size=batch))))
    for ssp in log:
        chooser.register(ssp, positions[ssp])
    if state is not None:
        chooser.restore(state)
    chooser.start()
    sources = {
        ssp: [Run(ssp, positions[ssp], end - positions[ssp])] if end > positions[ssp] else []
        for ssp, end in log.items()
    }
    order = ""
    for run in taken(chooser, sources, limit=limit):
        order += run.ssp.stream * run.messages
        positions[run.ssp] = run.offset + run.messages
    return order, chooser.snapshot()


@pytest.mark.parametrize(("limit", "batch"), [(1, None), (2, None), (3, None), (1, 3), (2, 3), (5, 2)])
def test_turns_go_on_from_epoch_to_epoch(limit: int, batch: int | None) -> None:
    log = {A0: 9, B0: 7, Ssp("k", "c", 0): 4}
    positions = dict.fromkeys(log, 0)
    whole, _ = limited(None, 100, log, positions, batch)
    positions, order, state = dict.fromkeys(log, 0), "", None
    while len(order) < len(whole):
        more, state = limited(state, limit, log, positions, batch)
        order += more
    assert order == whole


def test_what_comes_anew_waits_behind_what_waited_before() -> None:
    log, positions = {A0: 5, B0: 5, FILL: 0}, dict.fromkeys((A0, B0, FILL), 0)
    first, state = limited(None, 1, log, positions)
    log[FILL] = 5
    assert [first, limited(state, 4, log, positions)[0]] == ["a", "b" + "a" + "fill" + "b"]


def test_a_state_that_is_no_json_is_rejected() -> None:
    class Odd(RoundRobinChooser[Any]):
        def snapshot(self) -> Any:
            return {1, 2}

        def restore(self, state: Any) -> None: ...

    with pytest.raises(
        ConfigError, match="What snapshot\\(\\) of the chooser gives is no JSON value: Object of type set"
    ):
        RunChooser[Run](Odd()).snapshot()


def test_a_chooser_that_cannot_tell_what_is_next_gets_single_messages() -> None:
    got = list(chosen(RunChooser[Run](NewestFirst()), {A0: [Run(A0, 0, 2)], B0: [Run(B0, 0, 2)]}))
    assert got == [Run(B0, 0, 1), Run(B0, 1, 1), Run(A0, 0, 1), Run(A0, 1, 1)]


def test_a_stream_that_ends_before_its_head_is_an_error_and_no_endless_wait() -> None:
    settings = ChooserSettings(bootstrap=frozenset(["k.a"]))
    chooser = RunChooser[Run](make_chooser(ChooserContext(settings, heads={A0: PartitionHead(5)})))
    chooser.register(A0, 0)
    chooser.start()
    with pytest.raises(StageError, match=r"what is left of k\.b/0"):
        list(chosen(chooser, {A0: [Run(A0, 0, 2)], B0: [Run(B0, 0, 1)]}))


def backfill(grain: int) -> RunChooser[Run]:
    chooser = RunChooser[Run](make_chooser(ChooserContext(ChooserSettings({"k.rt": 1}))), grain)
    chooser.start()
    return chooser


def test_an_epoch_admits_the_higher_priority_first_and_the_lower_up_to_its_limit() -> None:
    chooser = backfill(grain=10)
    chooser.update(Run(FILL, 0, 1000))
    chooser.update(Run(RT, 0, 5))
    assert admitted(chooser, 25) == [Run(RT, 0, 5), Run(FILL, 0, 20)]


def test_what_was_not_admitted_waits_for_a_later_epoch_and_gives_way_again() -> None:
    chooser = backfill(grain=10)
    chooser.update(Run(FILL, 0, 1000))
    assert admitted(chooser, 20) == [Run(FILL, 0, 20)]
    chooser.update(Run(RT, 0, 15))
    assert admitted(chooser, 20) == [Run(RT, 0, 15), Run(FILL, 20, 10)]
    assert chooser.holds(FILL)


def test_nothing_is_admitted_while_a_bootstrap_stream_has_nothing_at_hand() -> None:
    settings = ChooserSettings(bootstrap=frozenset(["k.a"]))
    chooser = RunChooser[Run](make_chooser(ChooserContext(settings, heads={A0: PartitionHead(1)})))
    chooser.register(A0, 0)
    chooser.start()
    chooser.update(Run(B0, 0, 7))
    assert admitted(chooser, 100) == []
    chooser.update(Run(A0, 0, 1))
    assert admitted(chooser, 100) == [Run(A0, 0, 1)]
    chooser.update(Run(A0, 1, 2))
    assert admitted(chooser, 100) == [Run(A0, 1, 2), Run(B0, 0, 7)]
