"""Choosers in runs (SEMANTICS M1–M7): what is read first, how streams stay aligned, whose chooser decides."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_samza import StreamTask, TaskApplication, stream_application
from airflow_samza.chooser.round_robin import RoundRobinChooser
from airflow_samza.errors import ConfigError, StageError
from airflow_samza.testing import TestDriver

START = datetime(2026, 3, 1, tzinfo=timezone.utc)
SCHEMA = "id bigint, at timestamp"


class Order(StreamTask):
    """Sends where each message came from, in the order in which it sees them."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        collector.send("order", {"stream": envelope.stream, "id": envelope.message.id, "at": envelope.message.at})


def order_of(
    config: dict[str, str] | None = None, task: type[StreamTask] = Order, piped: dict[str, Any] | None = None, **inputs: dict[str, Any]
) -> TestDriver:
    class Ordering(TaskApplication):
        name = "ordering"

        def describe(self, app: Any) -> None:
            for stream, options in inputs.items():
                app.input_stream(stream, schema=SCHEMA, timestamp="at", partitions=1, system="logs", **options)
            app.output_stream("order", schema="stream string, id bigint, at timestamp")
            app.task(task)

    driver = TestDriver(Ordering, config=config)
    for stream, minutes in (piped or {}).items():
        driver.pipe(stream, [{"id": number, "at": START + timedelta(minutes=minute)} for number, minute in enumerate(minutes)])
    return driver


def streams(driver: TestDriver) -> str:
    return "".join(row.stream for row in driver.output("order"))


def test_streams_take_turns_message_by_message_where_a_task_sees_the_order() -> None:
    assert streams(order_of(a={}, b={}, piped={"a": range(4), "b": range(2)}).run()) == "ababaa"


def test_a_bootstrap_stream_is_read_to_its_head_first() -> None:
    driver = order_of(a={}, b={"bootstrap": True}, piped={"a": range(3), "b": range(3)})
    assert streams(driver.run()) == "bbbaaa"
    assert streams(driver.run(mode="pipelined", epoch_messages=2)) == "bbbaaa"


def test_the_head_is_that_at_start_and_what_comes_later_waits_for_nobody() -> None:
    driver = order_of(a={"bounded": False}, b={"bounded": False, "bootstrap": True}, piped={"a": range(2), "b": range(2)}).step()
    assert streams(driver) == "bbaa"
    driver.pipe("a", [{"id": 9, "at": START}]).step()
    assert streams(driver) == "bbaaa"


def test_the_higher_priority_goes_first_and_interrupts() -> None:
    driver = order_of({"task.chooser.priorities.logs.b": "7"}, a={}, b={}, piped={"a": range(2), "b": range(3)})
    assert streams(driver.run()) == "bbbaa"


def test_batches_of_one_partition_are_taken_in_a_row() -> None:
    driver = order_of({"task.consumer.batch.size": "2"}, a={}, b={}, piped={"a": range(4), "b": range(4)})
    assert streams(driver.run()) == "aabbaabb"


@pytest.mark.parametrize("epoch_messages", [None, 3])
def test_time_aligned_streams_stay_aligned(epoch_messages: int | None) -> None:
    """M6: runs are split at the exact message, so that none is more than its neighbour's distance ahead."""
    config = {"task.chooser.class": "airflow_samza.chooser.factories:time_aligned"}
    driver = order_of(config, a={}, b={}, piped={"a": range(0, 60, 5), "b": range(0, 20)}).run()
    times = [row.at for row in driver.output("order")]
    assert times == sorted(times)
    driver.run(mode="pipelined", epoch_messages=epoch_messages)
    assert len(driver.output("order")) == 32


def test_time_alignment_finds_its_times_in_streams_of_which_nothing_else_is_read() -> None:
    def describe(app: Any) -> None:
        first = app.input_stream("a", schema=SCHEMA, timestamp="at", partitions=1)
        first.merge(app.input_stream("b", schema=SCHEMA, timestamp="at", partitions=1)).select("id").send_to(app.output_stream("out"))

    config = {"task.chooser.class": "airflow_samza.chooser.factories:time_aligned"}
    driver = TestDriver(stream_application("pruned")(describe), config=config)
    for stream, minutes in {"a": [0, 20], "b": [10, 30]}.items():
        driver.pipe(stream, [{"id": minute, "at": START + timedelta(minutes=minute)} for minute in minutes])
    assert [row.id for row in driver.run().output("out")] == [0, 10, 20, 30]


class Slow(Order):
    """Takes its time."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        time.sleep(0.002)
        super().process(envelope, collector, coordinator)


def test_an_epoch_ends_when_its_time_is_over_and_what_is_preferred_comes_first_in_each() -> None:
    """M7: what was not admitted is read by a later epoch."""
    config = {"job.epoch.max.ms": "1", "task.chooser.priorities.logs.b": "7"}
    driver = order_of(config, Slow, a={"bounded": False}, b={"bounded": False}, piped={"a": range(4), "b": range(1)}).step()
    assert streams(driver) == "baaaa"
    assert driver.reports()[0].inputs["a"].messages <= 1  # of the last epoch


class Backwards(RoundRobinChooser[Any]):
    """A chooser of the user's: gives everything of the stream named last first."""

    def __init__(self, context: Any) -> None:
        super().__init__()
        self.context = context
        self._rank = lambda envelope: -ord(envelope.ssp.stream[0])


class Never(RoundRobinChooser[Any]):
    """A chooser that takes nothing of b."""

    def __init__(self, context: Any) -> None:
        super().__init__()

    def update(self, envelope: Any) -> None:
        if envelope.ssp.stream != "b":
            super().update(envelope)


def test_a_chooser_of_ones_own_decides() -> None:
    driver = order_of({"task.chooser.class": f"{__name__}:Backwards"}, a={}, b={}, piped={"a": range(2), "b": range(2)})
    assert streams(driver.run()) == "bbaa"


def test_a_chooser_that_leaves_something_unread_fails_a_bounded_run() -> None:
    driver = order_of({"task.chooser.class": f"{__name__}:Never"}, a={}, b={}, piped={"a": range(2), "b": range(2)})
    with pytest.raises(StageError, match="does not choose what is left of"):
        driver.run()


def test_a_chooser_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be imported"):
        order_of({"task.chooser.class": "nowhere:chooser"}, a={}, b={}, piped={"a": [1], "b": [1]}).run()
