"""``airflow-samza gc``: deletes what has expired under a root, of all applications, or lists it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_samza.cli.environment import Environment
from airflow_samza.errors import ConfigError
from airflow_samza.figures import size
from airflow_samza.grouping import grouped
from airflow_samza.launch.root_upkeep import RootUpkeep
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.runs.upkeep.retention import SweptRoot


def keep_of(environment: Environment, runs: int | None, days: float | None) -> Keep:
    """Return how many runs are kept, and for how long, from the command line or else the environment."""
    for name, value, least in (("--keep-runs", runs, 1), ("--keep-runs-days", days, 0)):
        if value is not None and value < least:
            raise ConfigError(f"{name} is {value}.", hint=f"Give a number from {least}.", key=name, value=value)
    usual = environment.keep
    return Keep(usual.runs if runs is None else runs, usual.days if days is None else days)


def collect(environment: Environment, keep: Keep, *, dry: bool) -> SweptRoot:
    """Delete what has expired, or with ``dry`` only find it."""
    upkeep = RootUpkeep(environment.files, environment.systems, environment.access)
    return upkeep.sweep_root(keep, dry=dry)


def swept_facts(swept: SweptRoot, *, dry: bool) -> dict[str, Any]:
    """Return a sweep as ``gc --json`` has it; ``files`` are those of each log that no topic names any more."""
    return {
        "dry_run": dry,
        "runs": swept.runs.runs,
        "topics": _topics(swept),
        "folders": swept.runs.leftovers,
        "kept": swept.runs.kept,
        "logs": {
            name: {"files": log.files, "bytes": log.bytes, "damaged": sorted(log.damaged), "later": log.later}
            for name, log in swept.logs.items()
        },
        "tables": {
            place: {"files": table.files, "bytes": table.bytes, "later": table.later}
            for place, table in swept.tables.items()
        },
    }


_FEW = 3
"""Runs that are kept for one reason, up to which each has a line."""


def swept_lines(swept: SweptRoot, *, dry: bool, kept: bool = False) -> Iterator[str]:
    """Return a sweep's report: a line per deleted thing, and per reason why old runs stay, or (``kept``) per run."""
    done = "Would delete" if dry else "Deleted"
    for run in swept.runs.runs:
        yield f"{done} the run {run}."
    topics = _topics(swept)
    for topic in topics:
        yield f"{done} the topic {topic}."
    for path in swept.runs.leftovers:
        yield f"{done} {path}."
    yield from _kept_lines(swept.runs.kept, all_=kept)
    for name, log in swept.logs.items():
        for topic in sorted(log.damaged):
            yield f"Left alone, because it is damaged: {topic} (airflow-samza topics fsck {topic})"
        for sentence in log.later:
            yield f"Left for the next time: {sentence}"
        if log.files:
            yield f"{done} {log.files:,} files ({size(log.bytes)}) of topics of {name} that nobody names any more."
    for place, table in swept.tables.items():
        if table.later:
            yield f"Left for the next time: {table.later}"
        if table.files:
            yield f"{done} {table.files:,} data files ({size(table.bytes)}) of {place} that no snapshot has."
    yield (
        f"{done} {len(swept.runs.runs):,} runs, {len(topics):,} topics and {len(swept.runs.leftovers):,} other folders."
    )


def _kept_lines(kept: Mapping[str, str], *, all_: bool) -> Iterator[str]:
    alike = grouped(((run.partition("/")[0], re.sub(r"\d+", "…", why)), run) for run, why in sorted(kept.items()))
    for (application, why), runs in alike.items():
        if all_ or len(runs) <= _FEW:
            yield from (f"Kept the run {run}: {kept[run]}." for run in runs)
        else:
            yield f"Kept {len(runs):,} runs of {application}: {why} (--kept lists them)."


def _topics(swept: SweptRoot) -> list[str]:
    others = (name for log in swept.logs.values() for name in log.topics if name not in swept.runs.topics)
    return [*swept.runs.topics, *others]
