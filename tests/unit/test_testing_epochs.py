"""The test driver in epochs: all stages at once, continuously, and run after run; the result is that of one go."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_samza import EndOfStreamListenerTask, StreamTask, count, stream_application, sum_, task_application
from airflow_samza.errors import InvalidApplication
from airflow_samza.testing import TestDriver


@dataclass(frozen=True)
class View:
    member_id: int
    country: str
    dwell_ms: int


VIEWS = [View(number % 7, "NL" if number % 3 else "DE", number) for number in range(50)]


def per_country(app: Any, *, bounded: bool = True) -> None:
    views = app.input_stream("views", schema=View, bounded=bounded)
    by_member = views.where("dwell_ms > 3").partition_by("member_id", id="by-member")
    (
        by_member.map(lambda view: view)
        .partition_by("country", id="by-country")
        .aggregate("country", views=count(), dwell=sum_("dwell_ms"), id="per-country")
        .send_to(app.output_stream("totals"))
    )


def driver_of(describe: Any, name: str = "epochs", partitions: int = 3, **config: str) -> TestDriver:
    return TestDriver(
        stream_application(name)(describe),
        partitions=partitions,
        config={**config, "job.intermediate.stream.partitions": "2"},
    )


def rows(driver: TestDriver, stream: str = "totals") -> list[Any]:
    return sorted(driver.output(stream), key=repr)


EXPECTED = rows(driver_of(per_country).pipe("views", VIEWS).run())


@pytest.mark.parametrize("epoch_messages", [1, 4, None])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.few(3)
def test_all_stages_at_once_give_what_one_after_the_other_gives(epoch_messages: int | None, seed: int) -> None:
    driver = driver_of(per_country).pipe("views", VIEWS)
    driver.run(mode="pipelined", epoch_messages=epoch_messages, shuffle=random.Random(seed))
    assert rows(driver) == EXPECTED
    assert all(report.ended for report in driver.reports())


def test_a_continuous_run_emits_what_is_due_and_the_rest_when_it_is_drained() -> None:
    driver = driver_of(lambda app: per_country(app, bounded=False))
    for at in range(0, 50, 10):
        driver.pipe("views", VIEWS[at : at + 10]).step(epoch_messages=3)
        assert driver.output("totals") == []
    assert rows(driver.drain()) == EXPECTED


def test_runs_that_take_what_has_come_since_the_last_one_keep_their_state() -> None:
    driver = driver_of(lambda app: per_country(app, bounded=False))
    for at in range(0, 50, 10):
        driver.pipe("views", VIEWS[at : at + 10]).catch_up()
        assert driver.output("totals") == []  # rule C9: the end of a slice flushes nothing
    assert rows(driver.drain()) == EXPECTED


def test_a_run_with_nothing_new_changes_nothing() -> None:
    driver = driver_of(lambda app: per_country(app, bounded=False)).pipe("views", VIEWS)
    driver.catch_up().catch_up().catch_up()
    assert rows(driver.drain()) == EXPECTED


def test_a_table_keeps_its_rows_from_run_to_run() -> None:
    def describe(app: Any) -> None:
        latest = app.local_table("latest", key="member_id", schema=View)
        app.input_stream("views", schema=View, bounded=False, key="member_id").send_to(latest)

    driver = driver_of(describe, partitions=1).pipe("views", VIEWS[:10]).catch_up()
    driver.pipe("views", VIEWS[10:20]).catch_up()
    assert sorted(view.dwell_ms for view in driver.table_rows("latest")) == list(range(13, 20))


def test_a_table_is_filled_before_it_is_looked_up_in_a_bounded_run_of_many_epochs() -> None:
    """Rule M8; what waits for the table is kept from epoch to epoch."""

    def describe(app: Any) -> None:
        known = app.local_table("known", key="member_id", schema=View)
        views = app.input_stream("views", schema=View, key="member_id", partitions=1)
        views.where("dwell_ms >= 40").send_to(known)
        joined = views.join(
            known, lambda view, row: View(view.member_id, view.country, row.dwell_ms), id="joined", schema=View
        )
        joined.send_to(app.output_stream("joined", schema=View))

    staged = rows(driver_of(describe).pipe("views", VIEWS).run(), "joined")
    assert len(staged) == 50
    assert rows(driver_of(describe).pipe("views", VIEWS).run(mode="pipelined", epoch_messages=4), "joined") == staged


def test_a_stage_that_reads_what_it_writes_runs_until_its_own_topic_has_ended() -> None:
    """Rules P7, C7: the table's writer stands behind the topic that the same stage writes."""

    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=View, key="member_id", partitions=2).map(lambda view: view)
        latest = app.local_table("latest", key="member_id", schema=View)
        views.where("dwell_ms > 20").partition_by("member_id", id="again").send_to(latest)
        views.join(
            latest, lambda view, row: View(view.member_id, view.country, row.dwell_ms), id="joined", schema=View
        ).send_to(app.output_stream("joined", schema=View))

    driver = TestDriver(stream_application("circle")(describe)).pipe("views", VIEWS)
    assert [stage.several_epochs for stage in driver.plan.stages] == [True]
    newest = {view.member_id: view.dwell_ms for view in VIEWS if view.dwell_ms > 20}
    expected = sorted((View(v.member_id, v.country, newest[v.member_id]) for v in VIEWS), key=repr)
    assert rows(driver.run(), "joined") == expected
    assert rows(driver.run(mode="pipelined", epoch_messages=3), "joined") == expected


class Listener(StreamTask, EndOfStreamListenerTask):
    """Counts; tells it at the end."""

    def __init__(self) -> None:
        self.seen = 0

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        self.seen += 1
        collector.send("out", View(envelope.offset, "", 0))

    def on_end_of_stream(self, collector: Any, coordinator: Any) -> None:
        collector.send("out", View(-1, "end", 0))


def test_only_the_end_of_the_stream_is_told_and_not_that_of_a_slice() -> None:
    def describe(app: Any) -> None:
        app.input_stream("views", schema=View, bounded=False, partitions=1)
        app.output_stream("out", schema=View)
        app.task(Listener)

    driver = TestDriver(task_application("listening")(describe)).pipe("views", VIEWS[:5]).catch_up()
    assert [view.member_id for view in driver.output("out")] == [0, 1, 2, 3, 4]
    driver.pipe("views", VIEWS[5:7]).drain()
    assert [view.member_id for view in driver.output("out")] == [0, 1, 2, 3, 4, 5, 6, -1]


def test_an_unknown_mode_is_rejected() -> None:
    with pytest.raises(InvalidApplication, match="mode='fast' is not a mode"):
        driver_of(per_country).pipe("views", VIEWS).run(mode="fast")
