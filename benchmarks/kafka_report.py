"""The report of the Kafka benchmark: the table in docs/project/benchmarks-kafka.md, between its markers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.kafka_topics import FORMATS
from benchmarks.report import DOCS, between_markers

PAGE = DOCS / "project/benchmarks-kafka.md"
OURS = "ours"

_WRITERS = {
    "exactly_once": "airflow_samza, `exactly_once`",
    "at_least_once": 'airflow_samza, `delivery="at_least_once"`',
    "spark": "Spark's Kafka sink (at least once)",
}


@dataclass
class Line:
    """The runs of somebody over so many messages: seconds of each, in the order of the rounds."""

    messages: int
    seconds: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Messages per second, of the median."""
        return self.messages / statistics.median(self.seconds)

    @property
    def best(self) -> float:
        """Messages per second, of the quickest run."""
        return self.messages / min(self.seconds)


@dataclass(frozen=True)
class Report:
    """All that was measured, by names; ``what`` describes each, and ``missing`` says who is not there, and why."""

    machine: str
    day: str
    what: Mapping[str, str]
    lines: Mapping[str, Mapping[str, Line]]
    published: Mapping[str, Line]
    missing: Sequence[str] = ()

    def table(self) -> list[str]:
        """Return the figures as Markdown."""
        made = [f"Measured on {self.machine}; {self.day}.", ""]
        made += ["| format | who | messages | runs | M messages/s, median | best | ours is faster by |"]
        made += ["|---|---|---:|---:|---:|---:|---:|"]
        for format_ in FORMATS:
            ours = self.lines[OURS].get(format_)
            for name, lines in self.lines.items():
                line = lines.get(format_)
                if line is not None:
                    made.append(f"| {format_} | {self.what[name]} | {_figures(line)} | {_ratio(ours, line)} |")
        if self.published:
            made += ["", "Published, JSON from Parquet:", ""]
            made += ["| who | messages | runs | M messages/s, median | best |", "|---|---:|---:|---:|---:|"]
            made += [f"| {_WRITERS[name]} | {_figures(line)} |" for name, line in self.published.items()]
        if self.missing:
            made += ["", f"Not measured: {' '.join(self.missing)}"]
        return made


def _figures(line: Line) -> str:
    return f"{line.messages:,} | {len(line.seconds)} | {line.rate / 1e6:.3f} | {line.best / 1e6:.3f}"


def _ratio(ours: Line | None, line: Line) -> str:
    """Return how many times as many messages a second ours reads: round by round where both have the same rounds."""
    if ours is None or ours is line:
        return ""
    if len(ours.seconds) == len(line.seconds):
        pairs = zip(ours.seconds, line.seconds, strict=True)
        found = [(theirs / line.messages) / (mine / ours.messages) for mine, theirs in pairs]
        return f"**{statistics.median(found):.1f}×** ({min(found):.1f}–{max(found):.1f})"
    return f"**{ours.rate / line.rate:.1f}×**"


def write_page(found: Report) -> None:
    """Write the table into the page."""
    PAGE.write_text(between_markers(PAGE.read_text(), "figures", found.table()))
