"""A plain model of an output that runs of two applications write by slots: which rows stand (rule O1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import strategies as st

from airflow_samza.systems.output_slots import OutputSlot
from tests.support.slotted import day

DAYS: tuple[tuple[int, int] | None, ...] = (None, (1, 1), (2, 1), (1, 2))
"""The data of runs: none that another run has, a day, the next one, and both."""


class Act(NamedTuple):
    """Publication of an epoch of a stage of a run; ``dies_at``: the operation at which its process dies (0: none)."""

    application: str
    run: int
    stage: str
    plan: int
    clear: int
    epoch: int
    dies_at: int

    @property
    def run_id(self) -> str:
        return f"{self.application}/run-{self.run}"

    @property
    def producer(self) -> str:
        return f"{self.run_id}/{self.stage}"

    @property
    def generation(self) -> tuple[int, int]:
        return self.plan, self.clear


acts = st.builds(
    Act,
    application=st.sampled_from("aab"),
    run=st.integers(0, 2),
    stage=st.sampled_from("sst"),
    plan=st.integers(1, 2),
    clear=st.integers(1, 2),
    epoch=st.integers(0, 1),
    dies_at=st.one_of(st.just(0), st.just(0), st.integers(1, 30)),
)


class Rejected(Exception):
    """The model permits no such publication."""


@dataclass
class Written:
    """Rows that a stage's generation has published, by epoch, and what they are of."""

    generation: tuple[int, int]
    data: tuple[int, int] | None
    rows: dict[int, int] = field(default_factory=dict)


@dataclass
class Model:
    """The output: what stands of each stage, who holds each slot, what was written and what was replaced there."""

    standing: dict[str, Written] = field(default_factory=dict)
    newest: dict[str, tuple[int, int]] = field(default_factory=dict)
    holders: dict[tuple[str, tuple[int, int]], str] = field(default_factory=dict)
    written: dict[tuple[str, tuple[str, tuple[int, int]]], tuple[int, int]] = field(default_factory=dict)
    replaced: dict[tuple[str, tuple[str, tuple[int, int]]], tuple[int, int]] = field(default_factory=dict)

    def publish(self, act: Act, data: tuple[int, int] | None, row: int) -> None:
        """Publish an epoch, or reject it, which changes nothing."""
        if self.newest.get(act.producer, (0, 0)) > act.generation:
            raise Rejected
        known = self.standing.get(act.producer)
        slot = (act.application, data) if data is not None else None
        if slot is not None:
            self._reject(act, slot, begins=known is None or known.generation != act.generation)
            self._take(act, slot)
        if known is None or known.generation != act.generation:
            self.standing[act.producer] = Written(act.generation, data)
            self.newest[act.producer] = act.generation
            if slot is not None:
                self.written[act.producer, slot] = act.generation
                self.replaced.pop((act.producer, slot), None)
        self.standing[act.producer].rows.setdefault(act.epoch, row)

    def _reject(self, act: Act, slot: tuple[str, tuple[int, int]], *, begins: bool) -> None:
        for (producer, of), generation in self.replaced.items():
            if of == slot and producer.rpartition("/")[0] == act.run_id:
                late = generation >= act.generation if producer == act.producer else generation[0] >= act.plan
                if late:
                    raise Rejected
        for producer, written in self.standing.items() if begins else ():
            other, application = written.data, producer.partition("/")[0]
            if other is None:
                continue
            same = other == slot[1]
            apart = other[0] + other[1] <= slot[1][0] or slot[1][0] + slot[1][1] <= other[0]
            if (application != act.application and same) or (application == act.application and not same and not apart):
                raise Rejected

    def _take(self, act: Act, slot: tuple[str, tuple[int, int]]) -> None:
        if self.holders.get(slot, act.run_id) != act.run_id:
            for producer, written in list(self.standing.items()):
                if (producer.partition("/")[0], written.data) == slot:
                    del self.standing[producer]
            self.replaced.update({key: of for key, of in self.written.items() if key[1] == slot})
        self.holders[slot] = act.run_id

    @property
    def rows(self) -> list[int]:
        """The rows that readers find."""
        return sorted(row for written in self.standing.values() for row in written.rows.values())


def row_of(act: Act) -> int:
    """Return the row that an epoch of a generation writes, always the same."""
    text = f"{'ab'.index(act.application) + 1}{act.run}{'st'.index(act.stage)}{act.plan}{act.clear}{act.epoch}"
    return int(text)


def slot_of(act: Act, data: tuple[int, int] | None) -> OutputSlot | None:
    return day(*data, application=act.application) if data is not None else None
