"""Records of expectations: the partial results in tasks' manifests, their sum, and the rejection of an epoch.

Tasks write them, the finish of an epoch sums them up, and the page shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_samza.grouping import grouped
from airflow_samza.records import durable

SAMPLES = 3
"""Rows that a result shows."""

PASSED, WARNED, DROPPED, DEAD_LETTERS, FAILED = "passed", "warned", "dropped", "dead letters", "failed"

_WORST = (PASSED, DEAD_LETTERS, DROPPED, WARNED, FAILED)


@dataclass(frozen=True)
class Expected:
    """An expectation of a stream or a table, as it is declared."""

    expectation: str
    kind: str
    action: str
    columns: tuple[str, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Declared(Expected):
    """An expectation of the rows of a push, as its table declares it; ``sql`` is a condition."""

    sql: str = ""


@dataclass(frozen=True)
class Checked(Expected):
    """The findings of one task about one expectation of a stream; all that judging it needs.

    ``rows`` were looked at, ``failed`` of them did not meet it (of expectations of each row). ``latest`` is the latest
    time (ms since 1970), ``keys`` the path of the file of keys with ``keyed`` of them.
    """

    rows: int = 0
    failed: int = 0
    latest: int | None = None
    keys: str | None = None
    keyed: int = 0
    samples: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExpectationResult:
    """The result of one expectation of a stream in a stage.

    ``rows`` were looked at, ``failed`` of them did not meet it; of ``rows(…)`` and ``fresh(…)`` it is 1 where the whole
    did not. ``outcome`` is one of ``passed``, ``warned``, ``dropped``, ``dead letters`` and ``failed``, ``found`` what
    was found, as a half sentence; ``samples`` are some rows.
    """

    expectation: str
    kind: str
    outcome: str
    columns: tuple[str, ...] = ()
    rows: int = 0
    failed: int = 0
    found: str = ""
    samples: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The result for people."""
        how = {PASSED: "met", WARNED: "not met (warning)", FAILED: "not met"}.get(
            self.outcome, f"not met ({self.outcome})"
        )
        return f"{self.expectation}: {how}{f', {self.found}' if self.found else ''}"


Results = Mapping[str, tuple[ExpectationResult, ...]]
"""Results of expectations, by the id of the stream."""


def result_lines(results: Results) -> Iterator[str]:
    """Yield a line for each expectation, with some of the rows that do not meet it."""
    for stream_id, some in results.items():
        for each in some:
            yield f"  {stream_id} {each.text}"
            yield from (f"    {sample}" for sample in each.samples)


def with_epoch(former: Results, more: Results) -> dict[str, tuple[ExpectationResult, ...]]:
    """Return the results of a stage so far, with those of one epoch more."""
    together = dict(former)
    for stream_id, results in more.items():
        before = {result.expectation: result for result in together.get(stream_id, ())}
        now = [_added(before.pop(result.expectation, None), result) for result in results]
        together[stream_id] = (*before.values(), *now)
    return together


def _added(before: ExpectationResult | None, now: ExpectationResult) -> ExpectationResult:
    if before is None:
        return now
    worse = max(before, now, key=lambda each: _WORST.index(each.outcome))
    return replace(
        now,
        outcome=worse.outcome,
        rows=before.rows + now.rows,
        failed=before.failed + now.failed,
        found=now.found if now.outcome == worse.outcome else worse.found,
        samples=(*before.samples, *now.samples)[:SAMPLES],
    )


@durable("rejection of an epoch")
@dataclass(frozen=True)
class Rejection:
    """The record that an epoch does not count, as its output does not meet an expectation.

    It is about the output of the tries in ``attempts``, in the order of the tasks: what later ones write is judged
    anew. ``error`` is the error in its JSON form, ``results`` are by stream.
    """

    attempts: tuple[str, ...]
    error: Mapping[str, Any]
    results: Mapping[str, tuple[ExpectationResult, ...]]


@durable("rows that runs have published", reports=True)
@dataclass(frozen=True)
class PublishedRows:
    """The rows that the last two runs have published to an output, the last one first: run id and number.

    A run that is tried again compares with another than itself, so one of them is not enough.
    """

    runs: tuple[tuple[str, int], ...] = ()

    def other_than(self, run_id: str) -> tuple[str, int] | None:
        """Return the run that published last, a given one apart."""
        return next((one for one in self.runs if one[0] != run_id), None)

    def after(self, run_id: str, rows: int) -> PublishedRows:
        """Return the record after another run has published."""
        former = self.other_than(run_id)
        return PublishedRows(((run_id, rows), *(() if former is None else (former,))))


def merged(declared: Sequence[Declared], parts: Iterable[Sequence[Checked]]) -> tuple[Checked, ...]:
    """Return the findings of all tasks about each expectation; a task that saw no row may have none."""
    found = grouped((each.expectation, each) for part in parts for each in part)
    return tuple(_merged(each, found.get(each.expectation, ())) for each in declared)


def _merged(one: Declared, parts: Sequence[Checked]) -> Checked:
    return Checked(
        one.expectation,
        one.kind,
        one.action,
        one.columns,
        one.limits,
        rows=sum(part.rows for part in parts),
        failed=sum(part.failed for part in parts),
        latest=max((part.latest for part in parts if part.latest is not None), default=None),
        samples=sampled(part.samples for part in parts),
    )


def sampled(parts: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return the first few samples of several tasks."""
    return tuple(sample for part in parts for sample in part)[:SAMPLES]
