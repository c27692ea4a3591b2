"""Lines of stages in a task's log, by a clock of the test's; and the metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_samza.errors import TopicError
from airflow_samza.provider import airflow_versions
from airflow_samza.provider.stats import Gauge, emitter, gauges_of
from airflow_samza.runs.progress.progress import PartitionProgress, ProgressReport, Rate
from airflow_samza.runs.progress.progress_log import QUIET_INTERVALS, ProgressLog
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.stage_state import RUNNING, SUCCEEDED, StageHandle, StageProgress, StageStatus
from tests.support.airflow_names import metrics_sent_to

HANDLE = StageHandle("views", "run-1", "by-member", Generation(1, 1), 1)
REPORT = ProgressReport("by-member", "1.1", RUNNING, 0.0, tasks=2, several_epochs=True, epochs=1, read=10)
WORKS = StageStatus(RUNNING, 1)


class Log:
    """A log over a clock that only the test moves; ``report`` is what is measured."""

    def __init__(self, **given: Any) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self.emitted: list[ProgressReport] = []
        self.report = REPORT
        self.problem: Exception | None = None
        self.log = ProgressLog(self.lines.append, self.measure, 30.0, self.emitted.append, lambda: self.now, **given)

    def measure(self, handle: StageHandle, status: StageStatus) -> ProgressReport:
        if self.problem is not None:
            raise self.problem
        return self.report

    def look(self, seconds: float, status: StageStatus = WORKS) -> list[str]:
        """The lines of a look after some seconds."""
        self.now += seconds
        self.lines.clear()
        self.log.look(HANDLE, status)
        return list(self.lines)


def busy(log: Log, seconds: float) -> list[str]:
    """A look at a stage that goes on."""
    log.report = replace(log.report, read=log.report.read + 1)
    return log.look(seconds)


def test_a_state_is_told_once_and_at_once() -> None:
    log = Log()
    assert log.look(0) == ["Stage by-member: running (attempt 1)"]
    assert log.look(1) == []
    assert log.look(1, StageStatus(SUCCEEDED, 1)) == ["Stage by-member: succeeded (attempt 1)"]


def test_figures_come_after_five_seconds_and_then_every_thirty() -> None:
    log = Log()
    log.look(0)
    told = [second for second in range(1, 100) if busy(log, 1)]
    assert told == [5, 35, 65, 95]


def test_a_warning_is_told_with_the_first_figures_that_have_it() -> None:
    log = Log()
    log.look(0)
    assert not any("!" in line for line in busy(log, 5))
    log.report = replace(log.report, warnings=("All 2 messages had null.",))
    assert busy(log, 30)[-1] == "  ! All 2 messages had null."
    log.report = replace(log.report, warnings=("All 3 messages had null.",))
    assert not any("!" in line for line in busy(log, 30))


def test_a_stage_that_has_decided_nothing_yet_is_looked_at_again_soon() -> None:
    log = Log()
    log.look(0)
    log.report = replace(REPORT, tasks=0)
    assert log.look(5) == []
    log.report = REPORT
    assert log.look(5) != []


def test_what_has_not_changed_is_told_again_only_after_a_long_while() -> None:
    log = Log()
    log.look(0)
    told = [number for number in range(2 * QUIET_INTERVALS + 3) if log.look(30)]
    assert told == [0, QUIET_INTERVALS + 1, 2 * QUIET_INTERVALS + 2]
    assert len(log.emitted) == 2 * QUIET_INTERVALS + 3


def test_what_another_process_has_said_is_not_said_again() -> None:
    log = Log(said={"by-member": "running (attempt 1)"})
    assert log.look(0) == []
    assert log.log.said == {"by-member": "running (attempt 1)"}


def test_whom_a_stage_waits_for_is_told() -> None:
    waiting = StageStatus(RUNNING, 1, progress=StageProgress(waiting_for="page-views"))
    log = Log()
    assert log.look(0, waiting) == ["Stage by-member: running (attempt 1), waiting for the stage page-views to start"]
    assert log.look(60, waiting) == []


def test_figures_that_cannot_be_had_are_no_reason_to_fail_and_told_once() -> None:
    log = Log()
    log.problem = TopicError("The topic is away.")
    log.look(0)
    assert log.look(30) == ["Stage by-member: its progress cannot be read at present: The topic is away."]
    assert log.look(30) == []


# -- metrics -----------------------------------------------------------------------------------------------------------


class Gauges:
    """The receiver of Airflow's metrics."""

    def __init__(self) -> None:
        self.sent: dict[str, tuple[float, Any]] = {}

    def gauge(self, name: str, value: float, *, tags: Any = None) -> None:
        self.sent[name] = (value, tags)

    def under(self, prefix: str) -> dict[str, tuple[float, Any]]:
        """Return what was sent under names that begin so, without that."""
        return {name.removeprefix(prefix): found for name, found in self.sent.items() if name.startswith(prefix)}


@pytest.fixture
def gauges() -> Iterator[Gauges]:
    gauges = Gauges()
    with metrics_sent_to(gauges):
        yield gauges


def test_metrics_have_names_without_tags_too_where_airflow_has_no_option_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class WithoutTheOption:
        def getboolean(self, section: str, key: str, *, fallback: bool) -> bool:
            return fallback

    monkeypatch.setattr(airflow_versions, "conf", WithoutTheOption())
    assert airflow_versions.sends_names_without_tags()


def test_metrics_are_named_after_application_and_stage_and_carry_the_tasks_tags(gauges: Gauges) -> None:
    partitions = (PartitionProgress("by-member", 0, 90, 100, watermark=5_000, ends=1, ends_expected=4),)
    report = replace(REPORT, at=15.0, partitions=partitions, now=Rate(7.0, 3.0, 30.0), late=2, dropped=1)
    emitter("page views.eu", {"dag_id": "d"})(report)
    tags = {"application": "page views.eu", "stage": "by-member", "dag_id": "d"}
    meant = {
        name: (value, tags)
        for name, value in {
            "running": 1.0,
            "lag": 10.0,
            "percent_behind": 10.0,
            "watermark_age_seconds": 10.0,
            "read": 10.0,
            "sent": 0.0,
            "read_per_second": 7.0,
            "sent_per_second": 3.0,
            "late": 2.0,
            "dropped": 1.0,
            "dead_letters": 0.0,
            "epochs": 1.0,
            "tasks_ended": 0.0,
            "idle_partitions": 0.0,
            "ends_received": 1.0,
            "ends_expected": 4.0,
        }.items()
    }
    assert gauges.under("samza.stage.") == meant
    assert gauges.under("samza.page_views__eu.by-member.") == meant
    assert len(gauges.sent) == 2 * len(meant)


def test_names_without_tags_are_sent_where_airflow_sends_such(gauges: Gauges, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__LEGACY_NAMES_ON", "False")
    emitter("page views.eu")(REPORT)
    assert gauges.sent
    assert gauges.sent.keys() == {f"samza.stage.{gauge.name}" for gauge in gauges_of(REPORT)}


def test_a_stage_that_has_ended_runs_no_more() -> None:
    assert Gauge("running", 0.0, "running") in gauges_of(replace(REPORT, state=SUCCEEDED))


def test_counters_and_gauges_of_tasks_and_the_lag_of_side_inputs_are_sent() -> None:
    sides = (PartitionProgress("profile-changes", 0, 90, 100), PartitionProgress("profile-changes", 1, 5, 5))
    found = list(gauges_of(replace(REPORT, side_inputs=sides, metrics={"seen.by us": 4, "queue": 2.5})))
    assert [gauge for gauge in found if gauge.tags] == [
        Gauge("side_input_lag", 10.0, "side_inputs.profile-changes.lag", {"stream": "profile-changes"}),
        Gauge("metric", 4.0, "metrics.seen__by_us", {"metric": "seen.by us"}),
        Gauge("metric", 2.5, "metrics.queue", {"metric": "queue"}),
    ]


def test_what_is_not_known_is_not_sent() -> None:
    found = {gauge.name for gauge in gauges_of(REPORT)}
    assert not {"lag", "percent_behind", "watermark_age_seconds", "read_per_second", "idle_partitions"} & found


def test_partitions_for_which_the_watermark_waits_are_counted() -> None:
    partitions = (
        PartitionProgress("by-member", 0, 90, 100, watermark=5_000),
        PartitionProgress("by-member", 1, 0, 0),
        PartitionProgress("by-member", 2, 0, 7),  # it has something to read
        PartitionProgress("others", 0, 0, 0),  # no partition of its input has a watermark
    )
    assert Gauge("idle_partitions", 1.0, "idle_partitions") in gauges_of(replace(REPORT, partitions=partitions))
