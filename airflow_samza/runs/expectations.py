"""Judgement of an epoch's output by its expectations, before it is committed (decision 125).

What tasks have found is put together; nobody reads the rows again. The finish of an epoch and of a push judge by it,
and the test driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_samza.application.expectations import FRESH, OF_ROWS, ROWS, UNIQUE
from airflow_samza.application.times import duration_text
from airflow_samza.config import Config
from airflow_samza.errors import ExpectationFailed
from airflow_samza.grouping import grouped
from airflow_samza.runs.records.epoch_records import Commit, Intent, Manifest
from airflow_samza.runs.records.expectations import (
    DEAD_LETTERS,
    DROPPED,
    FAILED,
    PASSED,
    WARNED,
    Checked,
    ExpectationResult,
    PublishedRows,
    Rejection,
    sampled,
)
from airflow_samza.runs.records.folders import StageFolder, read_report, replace, rows_published
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import OutputResult
from airflow_samza.systems.filesystems.filesystem import Filesystem

if TYPE_CHECKING:
    from airflow_samza.storage.snapshots import Files

_OUTCOMES = {"fail": FAILED, "warn": WARNED, "drop": DROPPED, "dead letter": DEAD_LETTERS}


def judge(
    files: Filesystem,
    run: RunPlan,
    folder: StageFolder,
    intent: Intent,
    manifests: Sequence[Manifest],
    former: Commit | None,
    *,
    is_last: bool,
) -> dict[str, tuple[ExpectationResult, ...]]:
    """Return the results of the expectations of an epoch, by stream; none where nothing is expected.

    Raises:
        ExpectationFailed: the epoch must not be committed; its rejection is on record.
    """

    def written(stream_id: str) -> int:
        before = former.totals.written.get(stream_id, {}).get("messages", 0) if former is not None else 0
        return before + sum(each.staged[stream_id].messages for each in manifests if stream_id in each.staged)

    judgement = Judgement(
        files,
        intent.stage,
        run.run_id,
        frozenset(intent.outputs),
        written,
        lambda stream_id: _published_before(files, run, stream_id),
        whole=intent.whole,
        is_last=is_last,
        shown=Config(run.config).messages_shown,
        until=datetime.fromisoformat(run.interval[1]).timestamp() if run.interval is not None else None,
    )
    results = judgement.results([manifest.checked for manifest in manifests])
    error = judgement.error(results)
    if error is not None:
        attempts = tuple(manifest.attempt for manifest in manifests)
        replace(files, folder.rejection(intent.epoch), Rejection(attempts, error.to_dict(), results))
        raise error
    return results


@dataclass(frozen=True)
class Judgement:
    """The judgement of one epoch: ``written`` gives how many rows the stage has written to a stream by its end.

    ``before`` gives who published to an output last, in words, and how many rows that were. ``whole``: the epoch is all
    there is. ``shown``: messages may be quoted. ``until`` is the end of the data interval, in seconds since 1970; None:
    now counts.
    """

    files: Files
    stage: str
    run_id: str
    outputs: frozenset[str]
    written: Callable[[str], int]
    before: Callable[[str], tuple[str, int] | None]
    whole: bool = True
    is_last: bool = True
    shown: bool = True
    until: float | None = None

    def results(self, tasks: Iterable[Mapping[str, Sequence[Checked]]]) -> dict[str, tuple[ExpectationResult, ...]]:
        """Return the results by stream, of what each task has found."""
        found = grouped(of_stream for by_stream in tasks for of_stream in by_stream.items())
        return {
            stream_id: tuple(
                self._result(stream_id, parts)
                for parts in zip(*checked, strict=True)
                if parts[0].kind != ROWS or self.is_last  # the number of rows is about all epochs
            )
            for stream_id, checked in found.items()
        }

    def error(self, results: Mapping[str, Sequence[ExpectationResult]]) -> ExpectationFailed | None:
        """Return the error of what must not be published; None where all may be."""
        failed = [(stream_id, each) for stream_id, some in results.items() for each in some if each.outcome == FAILED]
        if not failed:
            return None
        stream_id, first = failed[0]
        others = "; ".join(f"{each.expectation} of {name!r}: {each.found}" for name, each in failed[1:])
        such = f", such as {first.samples[0]}" if first.samples else ""
        more = f"; nor do these: {others}" if others else ""
        which, what = ("output" if stream_id in self.outputs else "input"), ("stage" if self.whole else "epoch")
        return ExpectationFailed(
            f"The {which} {stream_id!r} does not meet the expectation {first.expectation}: {first.found}{such}{more}; "
            f"nothing of the {what} is published.",
            hint="Correct the input or the application, and clear the stage. To see all such rows, send them to a "
            'stream: on_error=dead_letter(…); on_error="warn" publishes them.'
            if first.kind in OF_ROWS
            else 'Correct the input or the application, and clear the stage; on_error="warn" publishes all the same.',
            stage=self.stage,
            run=self.run_id,
            output=stream_id,
            expectation=first.expectation,
            failed=first.failed,
        )

    def _result(self, stream_id: str, parts: Sequence[Checked]) -> ExpectationResult:
        """Return the result of one expectation, of what each task has found of it."""
        one, rows = parts[0], sum(part.rows for part in parts)
        if one.kind in OF_ROWS:
            failed = sum(part.failed for part in parts)
            found = f"{failed:,} of {rows_text(rows)}" if failed else ""
            return judged(one, rows, failed, found, sampled(part.samples for part in parts))
        if one.kind == UNIQUE:
            from airflow_samza.storage.key_files import repeated  # who only looks at records loads no pyarrow

            paths = [part.keys for part in parts if part.keys is not None]
            failed, examples = repeated(self.files, paths, sum(part.keyed for part in parts))
            found = f"{rows_text(failed)} whose key comes before, of {rows:,}" if failed else ""
            return judged(one, rows, failed, found, _shown(one.columns, examples if self.shown else ()))
        if one.kind == FRESH:
            latest = max((part.latest for part in parts if part.latest is not None), default=None)
            found = self._stale(latest, rows, one.limits["within_ms"])
            return judged(one, rows, bool(found), found)
        written = self.written(stream_id)
        found = self._odd_number(stream_id, written, one.limits)
        return judged(one, written, bool(found), found)

    def _stale(self, latest: int | None, rows: int, within_ms: float) -> str:
        """Return why the latest time is too old; "" where it is not."""
        if not rows and not self.whole:
            return ""
        if latest is None:
            return "no row has a time"
        age = int((time.time() if self.until is None else self.until) * 1000) - latest
        than = "now" if self.until is None else "the end of the data interval"
        return f"the latest is {duration_text(age)} before {than}" if age > within_ms else ""

    def _odd_number(self, stream_id: str, written: int, limits: Mapping[str, float]) -> str:
        """Return what is wrong with the number of rows; "" where nothing is."""
        least, most, change = limits.get("at_least"), limits.get("at_most"), limits.get("change")
        if least is not None and written < least:
            return f"{rows_text(written)}, and at least {least:,.0f} are expected"
        if most is not None and written > most:
            return f"{rows_text(written)}, and at most {most:,.0f} are expected"
        before = self.before(stream_id) if change is not None else None
        if before is None or change is None:
            return ""
        which, number = before
        if abs(written - number) <= change * number:
            return ""
        how = (
            f", {abs(written - number) / number:.0%} {'fewer' if written < number else 'more'}" if number else ", more"
        )
        return f"{rows_text(written)}{how} than the {number:,} of {which}"


def note_published(files: Filesystem, run: RunPlan, outputs: Iterable[OutputResult]) -> None:
    """Note how many rows a run publishes to outputs, where later runs compare their number with it."""
    for output in outputs:
        if any(each.kind == ROWS for each in output.expectations):
            path = rows_published(run.application, output.stream_id)
            before = read_report(files, path, PublishedRows) or PublishedRows()
            after = before.after(run.run_id, output.messages)
            if after != before:
                replace(files, path, after)


def _published_before(files: Filesystem, run: RunPlan, stream_id: str) -> tuple[str, int] | None:
    """Return the run that published to an output last, in words, and how many rows it wrote; None: there is none."""
    noted = read_report(files, rows_published(run.application, stream_id), PublishedRows)
    last = noted.other_than(run.run_id) if noted is not None else None
    return None if last is None else (f"the run {last[0]!r}", last[1])


def judged(one: Checked, rows: int, failed: int, found: str = "", samples: tuple[str, ...] = ()) -> ExpectationResult:
    """Return the result of an expectation, which ``failed`` rows do not meet."""
    outcome = _OUTCOMES[one.action] if failed else PASSED
    return ExpectationResult(one.expectation, one.kind, outcome, one.columns, rows, int(failed), found, samples)


def _shown(columns: Sequence[str], keys: Iterable[Sequence[Any]]) -> tuple[str, ...]:
    return tuple(", ".join(f"{name}={value}" for name, value in zip(columns, key, strict=True)) for key in keys)


def rows_text(count: int) -> str:
    """Return a number of rows in words."""
    return f"{count:,} row" if count == 1 else f"{count:,} rows"
