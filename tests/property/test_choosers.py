"""Whatever the interleaving.

Every envelope is chosen once, in its partition's order, and gates, batches and priorities hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from airflow_samza.chooser.alignment import AlignmentChooser
from airflow_samza.chooser.default import ChooserContext, make_chooser
from airflow_samza.chooser.message_chooser import MessageChooser, PartitionHead, stream_name
from airflow_samza.chooser.runs import RunChooser
from airflow_samza.chooser.settings import ChooserSettings
from airflow_samza.systems.system import SystemStreamPartition as Ssp
from tests.support.budgets import share
from tests.support.built_in_choosers import BUILT_IN
from tests.support.chooser_messages import Run, admitted, chosen

QUICK = settings(max_examples=share(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])

Log = dict[Ssp, list[Run]]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Up to three streams of up to two partitions, each with runs of messages from some offset on.

    Some hold nothing.
    """
    log: Log = {}
    for stream in ("a", "b", "c"):
        for partition in range(draw(st.integers(0, 2))):
            ssp, offset = Ssp("k", stream, partition), draw(st.integers(0, 40))
            runs = []
            for messages in draw(st.lists(st.integers(1, 5), max_size=4)):
                runs.append(Run(ssp, offset, messages))
                offset += messages
            log[ssp] = runs
    return log


@st.composite
def choices(draw: st.DrawFn) -> ChooserSettings:
    priorities = draw(st.dictionaries(st.sampled_from(["k.a", "k.b", "k.c"]), st.integers(-2, 2)))
    bootstrap = frozenset(draw(st.sets(st.sampled_from(["k.a", "k.b", "k.c"]))))
    return ChooserSettings(priorities, bootstrap, draw(st.integers(1, 4)), draw(st.booleans()))


def time_of(envelope: Any) -> int:
    return int(envelope.offset * 7919 % 23)  # out of order within a partition, too


def heads_of(log: Log) -> dict[Any, PartitionHead]:
    return {
        ssp: PartitionHead(runs[-1].offset + runs[-1].messages - 1, runs[0].offset) if runs else PartitionHead(None)
        for ssp, runs in log.items()
    }


def made(name: str, chosen_by: ChooserSettings, log: Log, starts: dict[Ssp, int] | None = None) -> MessageChooser[Any]:
    factory = f"airflow_samza.chooser.factories:{name}"
    by_name = ChooserSettings(
        chosen_by.priorities, chosen_by.bootstrap, chosen_by.batch_size, chosen_by.waits_for_all, factory
    )
    chooser = make_chooser(ChooserContext(by_name, heads=heads_of(log), time_of=time_of))
    for ssp, runs in log.items():
        chooser.register(ssp, (starts or {}).get(ssp, runs[0].offset if runs else None))
    chooser.start()
    return chooser


def messages(runs: list[Run]) -> list[tuple[Ssp, int]]:
    return [(run.ssp, offset) for run in runs for offset in range(run.offset, run.offset + run.messages)]


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("grain", [None, 1, 3])
@settings(QUICK, max_examples=share(20))
@given(logs(), choices())
def test_every_message_is_chosen_once_and_in_its_partitions_order(
    name: str, grain: int | None, log: Log, chosen_by: ChooserSettings
) -> None:
    got = list(chosen(RunChooser(made(name, chosen_by, log), grain), log))
    for ssp, runs in log.items():
        assert messages([run for run in got if run.ssp == ssp]) == messages(runs)
    assert sum(run.messages for run in got) == sum(run.messages for runs in log.values() for run in runs)


@pytest.mark.parametrize("name", BUILT_IN)
@settings(QUICK, max_examples=share(30))
@given(logs(), choices(), st.data())
def test_whenever_envelopes_come_all_are_chosen_in_the_end(
    name: str, log: Log, chosen_by: ChooserSettings, data: st.DataObject
) -> None:
    chooser = made(name, chosen_by, log)
    waiting = {ssp: [Run(ssp, offset, 1) for _, offset in messages(runs)] for ssp, runs in log.items() if runs}
    outstanding: set[Ssp] = set()
    got: list[Run] = []
    total = sum(map(len, waiting.values()))
    while len(got) < total:
        at_rest = [ssp for ssp in waiting if waiting[ssp] and ssp not in outstanding]
        for ssp in data.draw(st.lists(st.sampled_from(at_rest), unique=True)) if at_rest else []:
            outstanding.add(ssp)
            chooser.update(waiting[ssp].pop(0))
        run = chooser.choose()
        if run is None:
            arrived = [ssp for ssp in waiting if waiting[ssp] and ssp not in outstanding]
            assert arrived, "it waits, though all messages have arrived"
            outstanding.add(arrived[0])
            chooser.update(waiting[arrived[0]].pop(0))
        else:
            outstanding.remove(run.ssp)
            got.append(run)
    assert chooser.choose() is None
    for ssp, runs in log.items():
        assert messages([run for run in got if run.ssp == ssp]) == messages(runs)


def one_by_one(chooser: MessageChooser[Any], log: Log) -> Iterator[tuple[Ssp, int]]:
    """The order of single messages, as a plain consumer gets it: choose, and give the next of that partition."""
    waiting = {ssp: [Run(ssp, offset, 1) for _, offset in messages(runs)] for ssp, runs in log.items()}
    for left in waiting.values():
        if left:
            chooser.update(left.pop(0))
    while (run := chooser.choose()) is not None:
        yield run.ssp, run.offset
        if waiting[run.ssp]:
            chooser.update(waiting[run.ssp].pop(0))


@pytest.mark.parametrize("name", BUILT_IN)
@settings(QUICK, max_examples=share(30))
@given(logs(), choices())
def test_runs_are_split_where_single_messages_would_have_changed_the_partition(
    name: str, log: Log, chosen_by: ChooserSettings
) -> None:
    in_runs = messages(list(chosen(RunChooser(made(name, chosen_by, log)), log)))
    assert in_runs == list(one_by_one(made(name, chosen_by, log), log))


@QUICK
@given(logs(), choices())
def test_a_lower_priority_is_chosen_only_when_nothing_higher_is_at_hand(log: Log, chosen_by: ChooserSettings) -> None:
    left = {ssp: sum(run.messages for run in runs) for ssp, runs in log.items()}
    for ssp, _ in one_by_one(made("default", chosen_by, log), log):
        most = max(chosen_by.priority(stream_name(other)) for other, count in left.items() if count)
        assert chosen_by.priority(stream_name(ssp)) == most
        left[ssp] -= 1


@QUICK
@given(logs(), st.integers(1, 4))
def test_batches_are_full_unless_their_partition_runs_dry(log: Log, size: int) -> None:
    left = {ssp: sum(run.messages for run in runs) for ssp, runs in log.items()}
    last, count = None, 0
    for ssp, _ in one_by_one(made("batching", ChooserSettings(batch_size=size), log), log):
        if ssp != last:
            assert last is None or count % size == 0 or not left[last]
            last, count = ssp, 0
        elif count % size == 0:
            # A further batch of the same partition: round robin would have gone on to any other.
            assert all(other == ssp or not some for other, some in left.items())
        count += 1
        left[ssp] -= 1


@QUICK
@given(logs(), choices())
def test_bootstrap_streams_are_wholly_read_before_any_other(log: Log, chosen_by: ChooserSettings) -> None:
    only = ChooserSettings(bootstrap=chosen_by.bootstrap, batch_size=chosen_by.batch_size)
    order = [stream_name(ssp) in only.bootstrap for ssp, _ in one_by_one(made("default", only, log), log)]
    assert order == sorted(order, reverse=True)


@QUICK
@given(logs(), choices(), st.data())
def test_a_gate_never_stays_closed_for_what_was_read_before(
    log: Log, chosen_by: ChooserSettings, data: st.DataObject
) -> None:
    rest: Log = {}
    starts: dict[Ssp, int] = {}
    for ssp, runs in log.items():
        rest[ssp] = runs[data.draw(st.integers(0, len(runs))) :]
        starts[ssp] = rest[ssp][0].offset if rest[ssp] else runs[-1].offset + runs[-1].messages if runs else 0
    got = list(chosen(RunChooser(made("default", chosen_by, log, starts)), rest))
    assert sorted(messages(got)) == sorted(place for runs in rest.values() for place in messages(runs))


@QUICK
@given(logs())
def test_streams_in_order_of_time_come_out_merged_by_time(log: Log) -> None:
    assume(any(log.values()))
    got = messages(list(chosen(RunChooser(AlignmentChooser(lambda piece: piece.offset)), log)))
    assert [offset for _, offset in got] == sorted(offset for _, offset in got)


@pytest.mark.parametrize("limit", [1, 4, 11])
@settings(QUICK, max_examples=share(30))
@given(logs(), choices(), st.integers(1, 3))
def test_epochs_admit_everything_once_within_their_limits(
    limit: int, log: Log, chosen_by: ChooserSettings, grain: int
) -> None:
    chooser = RunChooser[Run](made("default", chosen_by, log), grain)
    waiting = {ssp: list(runs) for ssp, runs in log.items()}
    got: list[Run] = []
    while True:
        for ssp, runs in waiting.items():
            if runs and not chooser.holds(ssp):
                chooser.update(runs.pop(0))
        epoch = admitted(chooser, limit)
        assert sum(run.messages for run in epoch) < limit + grain
        if not epoch:
            break
        got += epoch
    for ssp, runs in log.items():
        assert messages([run for run in got if run.ssp == ssp]) == messages(runs)


@QUICK
@given(logs(), choices(), st.integers(1, 20))
def test_admitting_in_epochs_never_lets_a_lower_priority_pass(log: Log, chosen_by: ChooserSettings, limit: int) -> None:
    chooser = RunChooser[Run](made("default", chosen_by, log))
    for runs in log.values():
        if runs:
            chooser.update(runs[0])
    order: list[int] = []
    while epoch := admitted(chooser, limit):
        order += [chosen_by.priority(stream_name(run.ssp)) for run in epoch]
    assert order == sorted(order, reverse=True)
