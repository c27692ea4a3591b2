"""Progress as metrics, through whatever Airflow was configured to send metrics to (StatsD, Datadog, OpenTelemetry)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_samza.provider.airflow_versions import send_gauge, stats_name
from airflow_samza.runs.progress.progress import ProgressReport

PREFIX = "samza"


def metrics_of(report: ProgressReport) -> dict[str, float]:
    """Return a report as gauges; unknown figures are left out."""
    known: dict[str, float | None] = {
        "lag": report.lag,
        "percent_behind": report.percent_behind,
        "watermark_age_seconds": None if report.watermark is None else report.at - report.watermark / 1000,
        "read": report.read,
        "sent": report.sent,
        "read_per_second": report.now.read
        if report.now is not None
        else report.overall.read
        if report.overall is not None
        else None,
        "sent_per_second": report.now.sent
        if report.now is not None
        else report.overall.sent
        if report.overall is not None
        else None,
        "late": report.late,
        "dropped": report.dropped,
        "dead_letters": report.dead_letters,
        "epochs": report.epochs,
        "tasks_ended": report.tasks_ended,
        "ends_received": sum(found.ends for found in report.partitions),
        "ends_expected": sum(found.ends_expected for found in report.partitions),
    }
    known.update({f"side_inputs.{_part(stream_id)}.lag": lag for stream_id, lag in report.side_input_lags.items()})
    known.update({f"metrics.{_part(name)}": value for name, value in report.metrics.items()})
    return {name: float(value) for name, value in known.items() if value is not None}


def emitter(application: str, tags: Mapping[str, str] | None = None) -> Callable[[ProgressReport], None]:
    """Sender of reports as gauges ``samza.<application>.<stage>.<metric>``, with the tags of the task."""

    def emit(report: ProgressReport) -> None:
        place = ".".join((PREFIX, _part(application), _part(report.stage_id)))
        for name, value in metrics_of(report).items():
            send_gauge(f"{place}.{name}", value, {"application": application, "stage": report.stage_id, **(tags or {})})

    return emit


def _part(name: str) -> str:
    """Return a name as one part of a metric's name, in which dots separate."""
    return stats_name(name.replace(".", "__"))
