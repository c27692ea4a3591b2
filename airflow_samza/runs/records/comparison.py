"""The report of a run that is compared with another one: rows added, gone and different, by output.

A comparing run writes it; its operator, the command line and the page show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.records import durable, plain


@dataclass(frozen=True)
class OutputComparison:
    """The rows of one output in two runs: ``before`` of the one that stood, ``after`` of the other.

    With a ``key`` the rows of a key are compared with each other, and ``columns`` says in how many of the ``different``
    ones each column differs. Without one a changed row is gone and added. ``columns_new`` and ``columns_gone`` are
    columns of one run only, ``types`` those whose types cannot be compared, with both; none of them is compared.
    ``samples`` are keys of rows by kind (``added``, ``gone``, ``different``), as texts by column, masked. ``only_in``
    names the run that alone has the output ("": both).
    """

    stream_id: str
    key: tuple[str, ...]
    before: int
    after: int
    same: int
    added: int
    gone: int
    different: int
    columns: Mapping[str, int] = field(default_factory=dict)
    columns_new: tuple[str, ...] = ()
    columns_gone: tuple[str, ...] = ()
    types: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    samples: Mapping[str, tuple[Mapping[str, str], ...]] = field(default_factory=dict)
    only_in: str = ""

    @property
    def is_equal(self) -> bool:
        """Return whether both runs have written the same rows, of the same columns."""
        rows = self.added or self.gone or self.different
        return not (rows or self.columns_new or self.columns_gone or self.types or self.only_in)

    @property
    def column_texts(self) -> Iterator[str]:
        """Yield texts for people: the columns in which rows differ, and those that are not compared."""
        if self.columns:
            ordered = sorted(self.columns.items(), key=lambda one: (-one[1], one[0]))
            yield f"columns that differ: {', '.join(f'{name} ({count:,})' for name, count in ordered)}"
        for names, word in ((self.columns_new, "new"), (self.columns_gone, "gone")):
            if names:
                yield f"columns that are {word}: {', '.join(names)}"
        for name, (before, after) in self.types.items():
            yield f"column {name}: {before}, and now {after}; its values are not compared"


@durable("comparison of a run", reports=True)
@dataclass(frozen=True)
class Comparison:
    """The differences of what a run has kept back from what another (``with_application``, ``with_run``) has written.

    ``notes`` are sentences on what was not read as the other run read it, ``at`` is in seconds since 1970.
    """

    application: str = ""
    run_id: str = ""
    with_application: str = ""
    with_run: str = ""
    outputs: tuple[OutputComparison, ...] = ()
    notes: tuple[str, ...] = ()
    at: float = 0.0

    @property
    def is_equal(self) -> bool:
        """Return whether all outputs have the same rows."""
        return all(output.is_equal for output in self.outputs)

    @property
    def told(self) -> dict[str, Any]:
        """The report for programs."""
        outputs = [{**plain(output), "equal": output.is_equal} for output in self.outputs]
        return {**plain(self), "outputs": outputs, "equal": self.is_equal}


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a comparison for people: a line for each output, and what differs below it."""
    whose = "" if comparison.with_application == comparison.application else f" of {comparison.with_application}"
    yield (
        f"Run {comparison.run_id} of {comparison.application} compared with the run {comparison.with_run}{whose}: "
        f"{'equal' if comparison.is_equal else 'different'}"
    )
    for output in comparison.outputs:
        yield f"  {output.stream_id}: {_counts(output)}"
        for text in _details(output):
            yield f"    {text}"
    yield from (f"  {note}" for note in comparison.notes)


def _counts(output: OutputComparison) -> str:
    if output.only_in:
        rows = output.before or output.after
        return f"only in the run {output.only_in}, {rows:,} {'row' if rows == 1 else 'rows'}"
    by = f" by {', '.join(output.key)}" if output.key else ""
    kinds = [(output.same, "equal"), (output.added, "added"), (output.gone, "gone")]
    kinds += [(output.different, "different")] if output.key else []
    return f"{', '.join(f'{count:,} {word}' for count, word in kinds)}{by}"


def _details(output: OutputComparison) -> Iterator[str]:
    yield from output.column_texts
    for kind, rows in output.samples.items():
        if rows:
            shown = "; ".join(", ".join(f"{name}={value}" for name, value in row.items()) for row in rows)
            yield f"{kind}, for example: {shown}"
