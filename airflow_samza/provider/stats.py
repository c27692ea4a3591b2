"""Progress as metrics, through whatever Airflow was configured to send metrics to (StatsD, Datadog, OpenTelemetry).

Stage and push operators send it, and so does the trigger of deferred ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_samza.provider.airflow_versions import send_gauge, sends_names_without_tags
from airflow_samza.runs.progress.progress import ProgressReport, Rate
from airflow_samza.runs.stages.stage_state import FINAL, RUNNING
from airflow_samza.runs.tables.push_request import STAGE

PREFIX = "samza"

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]")


@dataclass(frozen=True)
class Metric:
    """Description of a metric: the ``unit`` of its value, its ``meaning``, and the tag that tells several apart."""

    unit: str
    meaning: str
    tag: str = ""


METRICS: Mapping[str, Metric] = {
    "running": Metric("0 or 1", "1 while the stage runs; 0 in its last report"),
    "lag": Metric(
        "offsets",
        "offsets of this run's inputs that have not been read, of all partitions whose latest offset is known; "
        "end-of-stream messages, watermarks and markers of transactions have offsets, too",
    ),
    "percent_behind": Metric("%", "the lag in percent of all offsets of this run"),
    "watermark_age_seconds": Metric("seconds", "the time of the report minus the watermark of the stage's inputs"),
    "read": Metric("messages", "messages read since the stage began"),
    "sent": Metric("messages", "messages sent to all outputs since the stage began"),
    "read_per_second": Metric("messages/s", "messages read per second, at present; 0 in the last report"),
    "sent_per_second": Metric("messages/s", "messages sent per second, at present; 0 in the last report"),
    "late": Metric("messages", "messages that came after the watermark had passed them, since the stage began"),
    "dropped": Metric("messages", 'bad records left out by `on_error="drop"`, since the stage began'),
    "dead_letters": Metric("messages", "bad records sent to a dead-letter stream, since the stage began"),
    "epochs": Metric("epochs", "epochs that are committed"),
    "tasks_ended": Metric("tasks", "tasks that have nothing more to do"),
    "idle_partitions": Metric(
        "partitions",
        "partitions with nothing to read and without a watermark, while others of their input have one: the watermark "
        "of the stage waits for them",
    ),
    "ends_received": Metric("messages", "end-of-stream messages that have arrived, over all partitions"),
    "ends_expected": Metric("messages", "end-of-stream messages that all producers send, over all partitions"),
    "side_input_lag": Metric(
        "offsets", "offsets by which the stage's tables are behind a side input that they follow", "stream"
    ),
    "expectation_failures": Metric(
        "rows",
        "rows that do not meet an expectation, since the stage began (of a pushed table in one push, whose stage is "
        "`push`); of `rows(…)` and `fresh(…)` 1 where the whole does not",
        "expectation",
    ),
    "metric": Metric(
        "as counted",
        "a counter or gauge of tasks and side input processors (`context.metrics`), or a counter of the engine",
        "metric",
    ),
}
"""The metrics of a stage, by name."""

COUNTERS: Mapping[str, Metric] = {
    "late_messages": Metric("messages", "messages that came too late for a window, a join or `distinct`"),
    "messages_without_time": Metric(
        "messages", "messages whose event time is null, which belong to no window and are nobody's copies"
    ),
    "duplicate_messages": Metric(
        "messages", "copies that `distinct` left out, and changes that `apply_changes` had already"
    ),
    "messages_without_sequence": Metric(
        "messages", "changes without a key, or without what orders them (`apply_changes`)"
    ),
    "messages_without_key.<operator>": Metric(
        "messages", "messages with null in the key of a `partition_by` or a join (of two streams: `.left`, `.right`)"
    ),
    "dropped_messages.<operator>": Metric(
        "messages", 'bad records that `on_error="drop"` of an operator, an input or a side input left out'
    ),
    "dead_letters.<operator>": Metric("messages", "bad records that an operator or an input sent to its dead letters"),
    "remote_reads.<table>": Metric("keys", "keys that were looked up in a remote table"),
    "remote_writes.<table>": Metric("rows", "rows that were written to a remote table"),
    "remote_calls.<table>": Metric("calls", "calls of the reader and the writer of a remote table, retries among them"),
    "remote_retries.<table>": Metric("calls", "calls that were repeated after a failure"),
    "remote_cache_hits.<table>": Metric("keys", "keys that were answered by the cache"),
    "remote_seconds.<table>": Metric("seconds", "time for which tasks waited for calls"),
    "remote_null_keys_ignored.<table>": Metric("rows", "rows that were not written because their key is null"),
    "side_input_seconds.<stream>": Metric("seconds", "time for which tasks read a side input and called its processor"),
    "keys_behind_the_planned_head.<stream>": Metric(
        "keys", "keys of a compacted side input that came after the planned head and are not in its table"
    ),
    "table_rows_ignored_for_a_null_key": Metric("rows", "rows of tables that were left out because their key is null"),
    "interval_results_used": Metric(
        "parts", "partitions of data intervals of which a task used the kept partial results, and read nothing"
    ),
    "interval_results_made": Metric("parts", "partitions of data intervals that a task read"),
    "restored_from_memory_bytes": Metric("bytes", "state that tasks found in the memory of their process"),
    "restored_from_host_bytes": Metric("bytes", "state that tasks read from their host's disk"),
    "restored_from_root_bytes": Metric("bytes", "state that tasks read from the root"),
    "restore_seconds": Metric("seconds", "time for which tasks read their state"),
    "requests_<kind>": Metric("requests", "requests of tasks to a root on an object store: `PUT`, `GET`, `LIST`, …"),
}
"""The counters of the engine, which ``metric`` sends with their names as its tag."""


@dataclass(frozen=True)
class Gauge:
    """Figure of a stage; ``tags`` are its own, and ``path`` is its name where there are no tags."""

    name: str
    value: float
    path: str
    tags: Mapping[str, str] = field(default_factory=dict)


def gauges_of(report: ProgressReport) -> Iterator[Gauge]:
    """Yield the figures of a report under the names of :data:`METRICS`; unknown ones are left out."""
    rate = report.present_rate or (Rate(0.0, 0.0, 0.0) if report.state in FINAL else None)
    gauges: dict[str, float | None] = {
        "running": report.state == RUNNING,
        "lag": report.lag,
        "percent_behind": report.percent_behind,
        "watermark_age_seconds": None if report.watermark is None else report.at - report.watermark / 1000,
        "read": report.read,
        "sent": report.sent,
        "read_per_second": None if rate is None else rate.read,
        "sent_per_second": None if rate is None else rate.sent,
        "late": report.late,
        "dropped": report.dropped,
        "dead_letters": report.dead_letters,
        "epochs": report.epochs,
        "tasks_ended": report.tasks_ended,
        "idle_partitions": None if report.lag is None else len(report.idle),
        "ends_received": sum(partition.ends for partition in report.partitions),
        "ends_expected": sum(partition.ends_expected for partition in report.partitions),
    }
    for name, value in gauges.items():
        if value is not None:
            yield Gauge(name, float(value), name)
    for stream_id, lag in report.side_input_lags.items():
        yield Gauge("side_input_lag", float(lag), f"side_inputs.{part_of_name(stream_id)}.lag", {"stream": stream_id})
    for stream_id, results in report.expectations.items():
        for each in results:
            yield _expected(stream_id, each.expectation, each.failed)
    for name, value in report.metrics.items():
        yield Gauge("metric", float(value), f"metrics.{part_of_name(name)}", {"metric": name})


def _expected(of: str, expectation: str, failed: int) -> Gauge:
    """Return the figure of an expectation of a stream or a table."""
    named = part_of_name(f"{of}: {expectation}")  # StatsD takes no colons in tags
    return Gauge("expectation_failures", float(failed), f"expectations.{named}.failures", {"expectation": named})


def emit_push(application: str, table_id: str, failures: Mapping[str, int]) -> None:
    """Send how many rows of a push did not meet each expectation of its table, as a stage does (its name: ``push``)."""
    for expectation, failed in failures.items():
        _send(application, STAGE, _expected(table_id, expectation, failed), {})


def emitter(application: str, tags: Mapping[str, str] | None = None) -> Callable[[ProgressReport], None]:
    """Sender of reports as gauges, each under two names.

    ``samza.stage.<metric>`` has tags that say of which application and stage it is. For backends without tags,
    ``samza.<application>.<stage>.<metric>`` is sent where Airflow sends such names of its own, too.
    """

    def emit(report: ProgressReport) -> None:
        for gauge in gauges_of(report):
            _send(application, report.stage_id, gauge, tags or {})

    return emit


def _send(application: str, stage_id: str, gauge: Gauge, tags: Mapping[str, str]) -> None:
    said = {"application": application, "stage": stage_id, **tags}
    send_gauge(f"{PREFIX}.stage.{gauge.name}", gauge.value, {**said, **gauge.tags})
    if sends_names_without_tags():
        send_gauge(f"{PREFIX}.{part_of_name(application)}.{part_of_name(stage_id)}.{gauge.path}", gauge.value, said)


def part_of_name(name: str) -> str:
    """Return a name as one part of a metric's name, in which dots separate.

    >>> part_of_name("clicks per café")
    'clicks_per_caf_'
    """
    return _NOT_IN_NAMES.sub("_", name.replace(".", "__"))
