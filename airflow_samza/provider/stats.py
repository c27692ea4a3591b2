"""Progress as metrics, through whatever Airflow was configured to send metrics to (StatsD, Datadog, OpenTelemetry)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_samza.provider.airflow_versions import send_gauge, sends_names_without_tags, stats_name
from airflow_samza.runs.progress.progress import ProgressReport
from airflow_samza.runs.stages.stage_state import RUNNING

PREFIX = "samza"


@dataclass(frozen=True)
class Gauge:
    """Figure of a stage; ``tags`` are its own, and ``path`` is its name where there are no tags."""

    name: str
    value: float
    path: str
    tags: Mapping[str, str] = field(default_factory=dict)


def gauges_of(report: ProgressReport) -> Iterator[Gauge]:
    """Yield the figures of a report; unknown ones are left out."""
    rate = report.now or report.overall
    known: dict[str, float | None] = {
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
        "ends_received": sum(found.ends for found in report.partitions),
        "ends_expected": sum(found.ends_expected for found in report.partitions),
    }
    for name, value in known.items():
        if value is not None:
            yield Gauge(name, float(value), name)
    for stream_id, lag in report.side_input_lags.items():
        yield Gauge("side_input_lag", float(lag), f"side_inputs.{_part(stream_id)}.lag", {"stream": stream_id})
    for name, value in report.metrics.items():
        yield Gauge("metric", float(value), f"metrics.{_part(name)}", {"metric": name})


def emitter(application: str, tags: Mapping[str, str] | None = None) -> Callable[[ProgressReport], None]:
    """Sender of reports as gauges, each under two names.

    ``samza.stage.<metric>`` has tags that say of which application and stage it is. For backends without tags,
    ``samza.<application>.<stage>.<metric>`` is sent where Airflow sends such names of its own, too.
    """

    def emit(report: ProgressReport) -> None:
        said = {"application": application, "stage": report.stage_id, **(tags or {})}
        place = ".".join((PREFIX, _part(application), _part(report.stage_id)))
        for gauge in gauges_of(report):
            send_gauge(f"{PREFIX}.stage.{gauge.name}", gauge.value, {**said, **gauge.tags})
            if sends_names_without_tags():
                send_gauge(f"{place}.{gauge.path}", gauge.value, said)

    return emit


def _part(name: str) -> str:
    """Return a name as one part of a metric's name, in which dots separate."""
    return stats_name(name.replace(".", "__"))
