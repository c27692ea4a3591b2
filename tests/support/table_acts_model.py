"""A plain model of a place of outputs: which rows stand after each act of runs and of others, and what may be rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tests.support.table_places import Values

APPEND, REPLACE_PARTITIONS, REPLACE_TABLE, UPSERT = "append", "replace partitions", "replace table", "upsert"

REWRITING, TAKING = {"compact", "overwrite files"}, {"restore", "delete"}
"""Acts of others after which nobody knows rows by their files, and those after which rows are gone, or there again."""

Writer = tuple[str, str]
"""A run and the id of an output."""


class Row(NamedTuple):
    """A row; ``writer`` is None for those of others. The note is of the column as it was when the row was written."""

    id: int
    part: str
    note: str | None
    column: int = 0
    writer: Writer | None = None


@dataclass(frozen=True)
class State:
    """The rows that stand. ``column`` counts how often the column of notes was made, ``holder`` is who replaced all."""

    rows: tuple[Row, ...] = ()
    column: int = 0
    holder: str = ""

    @property
    def values(self) -> Counter[Values]:
        """The rows, as readers find them."""
        return Counter((row.id, row.part, row.note if row.column == self.column else None) for row in self.rows)

    def without(self, goes: Callable[[Row], bool]) -> State:
        return replace(self, rows=tuple(row for row in self.rows if not goes(row)))

    def with_rows(self, rows: Iterable[Values], writer: Writer | None = None) -> State:
        return replace(self, rows=(*self.rows, *(Row(*row, self.column, writer) for row in rows)))


@dataclass
class Model:
    """State of the outputs, and acts of others since each output of a run was written last (``since``)."""

    mode: str
    dated: bool
    run_column: bool
    state: State = field(default_factory=State)
    evolved: int = 0
    since: dict[Writer, set[str]] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    seen: list[tuple[Any, State]] = field(default_factory=list)
    columns: int = 0

    def mates(self, run: str) -> set[str]:
        """Return the other runs whose rows a run replaces: those of its slot."""
        if not self.dated or self.mode in (APPEND, UPSERT):
            return set()
        return {other for other, day in self.slots.items() if day == self.slots[run]} - {run}

    def published(self, run: str, outputs: Mapping[str, Sequence[Values]]) -> Iterator[State]:
        """Yield what stands after each step of a publication: none, an output and what former outputs wrote, the next."""
        state, mates = self.state, self.mates(run)
        yield state
        for name, rows in outputs.items():
            state = self._replaced(state, run, name, rows, mates).with_rows(rows, (run, name))
            if self.mode != UPSERT:
                state = state.without(lambda row: row.writer is not None and self._is_former(row.writer, run, outputs))
            state = replace(state, holder=run)
            yield state

    def _is_former(self, writer: Writer, run: str, outputs: Mapping[str, Any]) -> bool:
        return writer[0] == run and writer[1] not in outputs

    def _replaced(self, state: State, run: str, name: str, rows: Sequence[Values], mates: set[str]) -> State:
        """Return what is left of a state when an output is published."""
        if self.mode == UPSERT:
            keys = {row[0] for row in rows}
            return state.without(lambda row: row.id in keys)
        if self.mode == REPLACE_TABLE and state.holder != run:
            return replace(state, rows=())
        places = {self._partition(*row[:2]) for row in rows}

        def goes(row: Row) -> bool:
            if row.writer is not None and (row.writer == (run, name) or row.writer[0] in mates):
                return True
            others = self.mode == REPLACE_PARTITIONS and (row.writer is None or row.writer[0] != run)
            return others and self._partition(row.id, row.part) in places

        return state.without(goes)

    def _partition(self, number: int, part: str) -> tuple[Any, ...]:
        """Return the partition of a row by the spec of now."""
        return (part, number) if self.evolved else (part,)

    def wrote(self, run: str, outputs: Iterable[str], state: State) -> None:
        """Take notice of a publication."""
        self.state = state
        self.since.update({(run, name): set() for name in outputs})

    def reasons(self, run: str, outputs: Mapping[str, Any]) -> set[str]:
        """Return what others have done, since they were written, to rows that a publication of a run replaces."""
        runs = {run, *self.mates(run)}
        return {act for writer, acts in self.since.items() if writer[0] in runs for act in acts}

    def acted(self, act: str, rows: Iterable[Values] = (), back: State | None = None, *, columns: bool = False) -> None:
        """Take notice of an act of others; with ``columns``, going back goes back to the former columns, too."""
        state = self.state
        if act == "append":
            self.state = state.with_rows(rows)
        elif act == "delete":
            self.state = replace(state, rows=())
        elif back is not None:
            self.state = replace(back, column=back.column if columns else state.column, holder=state.holder)
        elif act in REWRITING:
            whole = (row if row.column == state.column else row._replace(note=None) for row in state.rows)
            self.state = replace(state, rows=tuple(whole))
        elif act == "spec":
            self.evolved += 1
        elif act == "drop column":
            self.columns += 1
            self.state = replace(state, column=self.columns)
        for acts in self.since.values():
            acts.add(act)


COMPACTED = r"they were compacted, or rows of them deleted"
PLANNED_BEFORE = r"since the run was planned, and what its tasks have written does not fit it"

Allowed = Callable[[Model, str, Mapping[str, Any], set[str]], bool]
"""Returns whether an error is right: by the model, the run, its outputs, and what others have done since it was planned."""


def _lost(model: Model, run: str, outputs: Mapping[str, Any], _: set[str]) -> bool:
    found = model.reasons(run, outputs)
    return bool(found & TAKING or (found & REWRITING and not model.run_column))


def _other_columns(_: Model, __: str, ___: Mapping[str, Any], since_plan: set[str]) -> bool:
    return bool(since_plan & {"spec", "drop column", "restore"})


def _taken_over(model: Model, run: str, _: Mapping[str, Any], __: set[str]) -> bool:
    return any(other in model.mates(run) for other, _ in model.since)


def _moved_beside(model: Model, run: str, outputs: Mapping[str, Any], _: set[str]) -> bool:
    several = len({name for writer, name in model.since if writer == run}) > 1
    return several and bool(model.reasons(run, outputs) & (REWRITING | TAKING))


def _evolved(model: Model, *_: Any) -> bool:
    return model.mode == REPLACE_PARTITIONS and model.evolved > 0


ALLOWED: Mapping[str, Allowed] = {
    COMPACTED: _lost,
    PLANNED_BEFORE: _other_columns,
    r"has replaced": _taken_over,
    r"while the run was at work, and its own rows would go": _moved_beside,
    r"a former partition spec, which does not tell the partitions of today": _evolved,
}
"""Errors that are right in a state, by what they say: of rows that nobody can tell any more, of a plan that is outdated,
of a run that another one of its slot has replaced, of partitions with rows of the run's other output, of former specs."""
