"""The configured layers around any chooser against a model in plain Python, message by message.

And epochs of any length against none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from airflow_samza.chooser.default import ChooserContext, make_chooser
from airflow_samza.chooser.message_chooser import stream_name
from airflow_samza.chooser.runs import RunChooser, taken
from airflow_samza.chooser.settings import ChooserSettings
from airflow_samza.systems.system import SystemStreamPartition as Ssp
from tests.property.test_choosers import Log, heads_of, logs, messages, time_of
from tests.support.budgets import share
from tests.support.built_in_choosers import BUILT_IN
from tests.support.chooser_messages import Run

Message = tuple[Ssp, int]
STREAMS = ["k.a", "k.b", "k.c"]


@st.composite
def choices(draw: st.DrawFn) -> ChooserSettings:
    priorities = draw(st.dictionaries(st.sampled_from(STREAMS), st.integers(-1, 1)))
    batch = draw(st.none() | st.integers(1, 4))
    return ChooserSettings(priorities, frozenset(draw(st.sets(st.sampled_from(STREAMS)))), batch, draw(st.booleans()))


class Plain:
    """A chooser of one's own with nothing but the protocol; ``best`` says which of those that wait goes next."""

    def __init__(self, best: Callable[[list[Message]], Message]) -> None:
        self.best = best
        self.waiting: dict[Message, Any] = {}

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def register(self, ssp: Any, offset: Any) -> None: ...

    def update(self, envelope: Any) -> None:
        self.waiting[envelope.ssp, envelope.offset] = envelope

    def choose(self) -> Any:
        return self.waiting.pop(self.best(list(self.waiting))) if self.waiting else None


def oldest(waiting: list[Message]) -> Message:
    return waiting[0]


def newest(waiting: list[Message]) -> Message:
    return waiting[-1]


def earliest(waiting: list[Message]) -> Message:
    return min(waiting, key=lambda message: message[1] * 7919 % 23)


def plain_newest(context: ChooserContext) -> Plain:
    return Plain(newest)


def plain_earliest(context: ChooserContext) -> Plain:
    return Plain(earliest)


CASES = {
    "airflow_samza.chooser.factories:round_robin": (oldest, False),
    "airflow_samza.chooser.factories:time_aligned": (earliest, False),
    f"{__name__}:plain_newest": (newest, True),
    f"{__name__}:plain_earliest": (earliest, True),
}
"""By factory: which message goes next among equals, and whether a batch keeps its own messages from the chooser inside."""


class Model:
    """The order of single messages by rules M3 and M4, in plain Python."""

    def __init__(
        self, log: Log, chosen_by: ChooserSettings, best: Callable[[list[Message]], Message], holds: bool
    ) -> None:
        ends = {ssp: found[-1][1] for ssp, found in ((ssp, messages(runs)) for ssp, runs in log.items()) if found}
        self.lagging = {ssp: end for ssp, end in ends.items() if chosen_by.waits_for(stream_name(ssp))}
        self.chosen_by, self.best, self.holds = chosen_by, best, holds
        self.waiting: list[Message] = []
        self.held: Message | None = None
        self.last: Ssp | None = None
        self.count = 0

    def _priority(self, message: Message) -> int:
        return self.chosen_by.priority(stream_name(message[0]))

    @property
    def _in_batch(self) -> bool:
        return (
            self.chosen_by.batch_size is not None and self.last is not None and self.count < self.chosen_by.batch_size
        )

    def update(self, message: Message) -> None:
        if self.holds and self._in_batch and message[0] == self.last:
            self.held = message
        else:
            self.waiting.append(message)

    def choose(self) -> Message | None:
        at_hand = [*self.waiting, *([self.held] if self.held else [])]
        for stream in {stream_name(ssp) for ssp in self.lagging}:
            if not any(ssp in self.lagging for ssp, _ in at_hand if stream_name(ssp) == stream):
                return None
        if not at_hand:
            self.last = None
            return None
        top = max(map(self._priority, at_hand))
        own = [
            message
            for message in at_hand
            if self._in_batch and message[0] == self.last and self._priority(message) == top
        ]
        if self.held and not own:  # a higher priority interrupts
            self.waiting.append(self.held)
            self.held = None
        message = own[0] if own else self.best([message for message in self.waiting if self._priority(message) == top])
        self.last, self.count = message[0], self.count + 1 if own else 1
        if message == self.held:
            self.held = None
        else:
            self.waiting.remove(message)
        if self.lagging.get(message[0]) == message[1]:
            del self.lagging[message[0]]
        return message


def made(factory: str, chosen_by: ChooserSettings, log: Log, starts: dict[Ssp, int] | None = None) -> Any:
    by_name = ChooserSettings(
        chosen_by.priorities, chosen_by.bootstrap, chosen_by.batch_size, chosen_by.waits_for_all, factory
    )
    return make_chooser(ChooserContext(by_name, heads=heads_of(log), time_of=time_of))


def first_offsets(log: Log) -> dict[Ssp, int]:
    return {ssp: runs[0].offset if runs else 0 for ssp, runs in log.items()}


def epoch(
    factory: str, chosen_by: ChooserSettings, log: Log, positions: dict[Ssp, int], state: Any, limit: int
) -> tuple[list[Message], Any]:
    """An epoch of ``limit`` messages from ``positions`` on, and the state behind it, as JSON."""
    chooser: RunChooser[Any] = RunChooser(made(factory, chosen_by, log))
    for ssp in log:
        chooser.register(ssp, positions[ssp])
    if state is not None:
        chooser.restore(json.loads(state))
    chooser.start()
    sources = {
        ssp: [
            Run(ssp, max(run.offset, positions[ssp]), run.offset + run.messages - max(run.offset, positions[ssp]))
            for run in runs
        ]
        for ssp, runs in log.items()
    }
    order: list[Message] = []
    for run in taken(
        chooser, {ssp: [run for run in runs if run.messages > 0] for ssp, runs in sources.items()}, limit=limit
    ):
        order += messages([run])
        positions[run.ssp] = run.offset + run.messages
    return order, json.dumps(chooser.snapshot())


@pytest.mark.parametrize("factory", CASES)
@settings(max_examples=share(120), deadline=None)
@given(logs(), choices(), st.data())
@pytest.mark.few(2)
def test_the_layers_around_any_chooser_choose_as_the_model_does_whenever_messages_come(
    factory: str, log: Log, chosen_by: ChooserSettings, data: st.DataObject
) -> None:
    chooser, model = made(factory, chosen_by, log), Model(log, chosen_by, *CASES[factory])
    left = {ssp: messages(runs) for ssp, runs in log.items() if runs}
    for ssp, runs in log.items():
        chooser.register(ssp, runs[0].offset if runs else 0)
    chooser.start()
    outstanding: set[Ssp] = set()
    while any(left.values()) or outstanding:
        at_rest = [ssp for ssp, more in left.items() if more and ssp not in outstanding]
        for ssp in data.draw(st.lists(st.sampled_from(at_rest), unique=True)) if at_rest else []:
            message = left[ssp].pop(0)
            outstanding.add(ssp)
            model.update(message)
            chooser.update(Run(*message, 1))
        run = chooser.choose()
        expected = model.choose()
        assert (None if run is None else (run.ssp, run.offset)) == expected
        if expected is not None:
            outstanding.discard(expected[0])


@pytest.mark.parametrize(
    "factory", [*(f"airflow_samza.chooser.factories:{name}" for name in BUILT_IN), f"{__name__}:plain_earliest"]
)
@settings(max_examples=share(30), deadline=None)
@given(logs(), choices(), st.data())
def test_epochs_of_any_length_take_messages_in_the_order_of_one(
    factory: str, log: Log, chosen_by: ChooserSettings, data: st.DataObject
) -> None:
    if chosen_by.batch_size is None:
        chosen_by = ChooserSettings(chosen_by.priorities, chosen_by.bootstrap, 2, chosen_by.waits_for_all)
    whole, _ = epoch(factory, chosen_by, log, first_offsets(log), None, 10_000)
    order: list[Message] = []
    state, positions = None, first_offsets(log)
    while len(order) < len(whole):
        more, state = epoch(factory, chosen_by, log, positions, state, data.draw(st.integers(1, 7)))
        assert more
        order += more
    assert order == whole


@settings(max_examples=share(40), deadline=None)
@given(
    st.integers(2, 4),
    st.integers(1, 3),
    st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=6),
)
def test_no_partition_waits_for_more_turns_than_there_are_others(
    count: int, limit: int, arrivals: list[list[int]]
) -> None:
    """Whatever comes between epochs.

    A partition of equal priority that has something is passed over at most once by each other.
    """
    partitions = [Ssp("k", "abcd"[place], 0) for place in range(count)]
    ends, positions, state, waited = (
        dict.fromkeys(partitions, 0),
        dict.fromkeys(partitions, 0),
        None,
        dict.fromkeys(partitions, 0),
    )
    for arrival in [*arrivals, *[[0] * 4] * 40]:
        for ssp, more in zip(partitions, arrival, strict=False):
            ends[ssp] += more
        log = {ssp: [Run(ssp, 0, ends[ssp])] if ends[ssp] else [] for ssp in partitions}
        before = dict(positions)
        order, state = epoch("airflow_samza.chooser.factories:default", ChooserSettings(), log, positions, state, limit)
        for ssp, _ in order:
            before[ssp] += 1
            for other in partitions:
                waited[other] = 0 if other == ssp or before[other] >= ends[other] else waited[other] + 1
                assert waited[other] < count
