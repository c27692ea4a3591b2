"""Choosers in runs (rules M1–M7): what is read first, how streams stay aligned, whose chooser decides."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar

import pytest

from airflow_samza import StreamTask, TaskApplication, stream_application
from airflow_samza.chooser.alignment import RoundRobinChooser
from airflow_samza.errors import ConfigError, StageError
from airflow_samza.testing import TestDriver
from tests.support.newest_first import NewestFirst

START = datetime(2026, 3, 1, tzinfo=timezone.utc)
SCHEMA = "id bigint, at timestamp"


class Order(StreamTask):
    """Sends where each message came from, in the order in which it sees them."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        collector.send("order", {"stream": envelope.stream, "id": envelope.message.id, "at": envelope.message.at})


def order_of(
    config: dict[str, str] | None = None,
    task: type[StreamTask] = Order,
    piped: dict[str, Any] | None = None,
    **inputs: dict[str, Any],
) -> TestDriver:
    class Ordering(TaskApplication):
        name = "ordering"

        def describe(self, app: Any) -> None:
            for stream, options in inputs.items():
                app.input_stream(
                    stream, **{"schema": SCHEMA, "timestamp": "at", "partitions": 1, "system": "logs", **options}
                )
            app.output_stream("order", schema="stream string, id bigint, at timestamp")
            app.task(task)

    driver = TestDriver(Ordering, config=config)
    for stream, minutes in (piped or {}).items():
        driver.pipe(
            stream, [{"id": number, "at": START + timedelta(minutes=minute)} for number, minute in enumerate(minutes)]
        )
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
    driver = order_of(
        a={"bounded": False}, b={"bounded": False, "bootstrap": True}, piped={"a": range(2), "b": range(2)}
    ).step()
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
    """Rule M6: runs are split at the exact message, so that none is more than its neighbour's distance ahead."""
    config = {"task.chooser.class": "airflow_samza.chooser.factories:time_aligned"}
    driver = order_of(config, a={}, b={}, piped={"a": range(0, 60, 5), "b": range(0, 20)}).run()
    times = [row.at for row in driver.output("order")]
    assert times == sorted(times)
    driver.run(mode="pipelined", epoch_messages=epoch_messages)
    assert len(driver.output("order")) == 32


def test_time_alignment_finds_its_times_in_streams_of_which_nothing_else_is_read() -> None:
    def describe(app: Any) -> None:
        first = app.input_stream("a", schema=SCHEMA, timestamp="at", partitions=1)
        first.merge(app.input_stream("b", schema=SCHEMA, timestamp="at", partitions=1)).select("id").send_to(
            app.output_stream("out")
        )

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
    """Rule M7: what was not admitted is read by a later epoch."""
    config = {"job.epoch.max.ms": "1", "task.chooser.priorities.logs.b": "7"}
    driver = order_of(
        config, Slow, a={"bounded": False}, b={"bounded": False}, piped={"a": range(4), "b": range(1)}
    ).step()
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


def test_a_chooser_that_is_not_there_is_rejected() -> None:
    with pytest.raises(ConfigError, match="cannot be imported"):
        order_of({"task.chooser.class": "nowhere:chooser"}, a={}, b={}, piped={"a": [1], "b": [1]}).run()


@pytest.mark.parametrize(
    ("config", "inputs", "order"),
    [
        ({}, {"c": {}}, "ccbbaa"),
        ({}, {"c": {}, "a": {"bootstrap": True}}, "aaccbb"),
        ({"task.chooser.priorities.logs.b": "1"}, {}, "bbccaa"),
        ({"task.chooser.priorities.logs.a": "-1", "task.chooser.priorities.logs.b": "1"}, {}, "bbccaa"),
    ],
    ids=["alone", "bootstrap", "priority", "priorities"],
)
@pytest.mark.parametrize("chooser", ["Backwards", "NewestFirst"])
def test_bootstrap_and_priorities_stand_around_a_chooser_of_ones_own(
    chooser: str, config: dict[str, str], inputs: dict[str, Any], order: str
) -> None:
    declared: dict[str, dict[str, Any]] = {"a": {}, "b": {}, "c": {}, **inputs}
    driver = order_of(
        {"task.chooser.class": f"{__name__}:{chooser}", **config},
        Order,
        **declared,
        piped={"a": range(2), "b": range(2), "c": range(2)},
    )
    assert streams(driver.run()) == order


@pytest.mark.parametrize(("config", "whole"), [({}, "ababaa"), ({"task.consumer.batch.size": "3"}, "aaabba")])
@pytest.mark.parametrize("epoch_messages", [1, 2, 3, 4])
def test_turns_are_the_same_whatever_the_length_of_epochs(
    config: dict[str, str], whole: str, epoch_messages: int
) -> None:
    driver = order_of(config, a={"bounded": False}, b={"bounded": False}, piped={"a": range(4), "b": range(2)})
    assert streams(driver.step(epoch_messages=epoch_messages)) == whole


def test_equal_streams_do_not_starve_each_other_where_an_epoch_is_shorter_than_a_run_of_messages() -> None:
    def describe(app: Any) -> None:
        first = app.input_stream("a", schema=SCHEMA, partitions=1, bounded=False)
        first.merge(app.input_stream("b", schema=SCHEMA, partitions=1, bounded=False)).select("id").send_to(
            app.output_stream("out")
        )

    driver = TestDriver(stream_application("turns")(describe))
    driver.pipe("a", [{"id": number, "at": None} for number in range(100)]).pipe("b", [{"id": 1000, "at": None}])
    out = [row.id for row in driver.step(epoch_messages=10).output("out")]
    assert out.index(1000) == 10


class Commits(Order):
    """Asks for a commit after every message."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        super().process(envelope, collector, coordinator)
        coordinator.commit()


def test_batches_go_on_behind_a_commit_in_their_middle() -> None:
    config = {"task.consumer.batch.size": "3"}
    driver = order_of(
        config, Commits, a={"bounded": False}, b={"bounded": False}, piped={"a": range(6), "b": range(6)}
    ).step()
    assert streams(driver) == "aaabbbaaabbb"


class Weighted(NewestFirst):
    """Three of a, then one of b; it keeps what it has counted."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.count = 0

    def choose(self) -> Any:
        wanted = "b" if self.count % 4 == 3 else "a"
        for envelope in self.waiting:
            if envelope.ssp.stream == wanted:
                self.waiting.remove(envelope)
                self.count += 1
                return envelope
        return None

    def snapshot(self) -> Any:
        return {"count": self.count}

    def restore(self, state: Any) -> None:
        self.count = state["count"]


def test_a_chooser_of_ones_own_keeps_its_state_from_epoch_to_epoch() -> None:
    config = {"task.chooser.class": f"{__name__}:Weighted"}
    driver = order_of(config, a={"bounded": False}, b={"bounded": False}, piped={"a": range(9), "b": range(3)})
    assert streams(driver.step(epoch_messages=2)) == "aaabaaabaaab"


class SmallestId(NewestFirst):
    """By content: the smallest id first, and control messages before all."""

    def choose(self) -> Any:
        if not self.waiting:
            return None
        first = min(self.waiting, key=lambda envelope: -1 if envelope.message is None else envelope.message.id)
        assert first.message is None or first.schema.names == ("id", "at")
        self.waiting.remove(first)
        return first


@pytest.mark.parametrize("epoch_messages", [None, 2])
def test_a_chooser_goes_by_the_content_of_messages(epoch_messages: int | None) -> None:
    driver = order_of({"task.chooser.class": f"{__name__}:SmallestId"}, a={}, b={}, piped={})
    for stream, ids in {"a": [1, 4, 5], "b": [2, 3, 9]}.items():
        driver.pipe(stream, [{"id": number, "at": START} for number in ids])
    driver.run(mode="pipelined", epoch_messages=epoch_messages)
    assert [row.id for row in driver.output("order")] == [1, 2, 3, 4, 5, 9]


@pytest.mark.parametrize("reduced", [False, True])
def test_a_chooser_sees_columns_that_nobody_else_reads_also_of_intermediate_streams(reduced: bool) -> None:
    def describe(app: Any) -> None:
        first = app.input_stream("a", schema="id bigint, other string", partitions=1)
        second = app.input_stream("b", schema="id bigint, other string", partitions=1)
        both = first.partition_by("other", id="p").merge(second.partition_by("other", id="q"))
        both.select("other").send_to(app.output_stream("out"))

    driver = TestDriver(
        stream_application("seen")(describe), config={"task.chooser.class": f"{__name__}:ByIdOnly"}, reduced=reduced
    )
    for stream, ids in {"a": [1, 4, 5], "b": [2, 3, 9]}.items():
        driver.pipe(stream, [{"id": number, "other": str(number)} for number in ids])
    assert [row.other for row in driver.run().output("out")] == ["1", "2", "3", "4", "5", "9"]


class ByIdOnly(NewestFirst):
    """By a column that the application does not read."""

    def choose(self) -> Any:
        if not self.waiting:
            return None
        first = min(self.waiting, key=lambda envelope: -1 if envelope.message is None else envelope.message.id)
        self.waiting.remove(first)
        return first


class SeesNone(NewestFirst):
    """Notes what it sees of messages."""

    seen: ClassVar[list[Any]] = []

    def update(self, envelope: Any) -> None:
        super().update(envelope)
        self.seen.append(None if envelope.message is None else envelope.message.id)


def test_a_message_that_cannot_be_read_is_none_to_a_chooser_and_judged_when_its_turn_comes() -> None:
    def describe(app: Any) -> None:
        rows = app.input_stream("rows", schema="id bigint not null", partitions=1, on_error="drop")
        rows.send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("odd")(describe), config={"task.chooser.class": f"{__name__}:SeesNone"})
    SeesNone.seen.clear()
    driver.pipe("rows", [{"id": 1}, "no message", {"id": 2}])
    assert [row.id for row in driver.run().output("out")] == [1, 2]
    assert SeesNone.seen == [1, None, 2, None]  # the last one is the end of the stream


def test_priorities_and_bootstrap_are_configured_by_id_where_no_system_is_named() -> None:
    config = {"streams.b.samza.priority": "7", "streams.c.samza.bootstrap": "true"}
    driver = order_of(
        config, a={"system": None}, b={"system": None}, c={"system": None}, piped={"a": [1], "b": [1], "c": [1]}
    )
    assert streams(driver.run()) == "cba"


def test_an_input_has_the_name_of_the_default_system_where_no_system_is_named() -> None:
    driver = order_of(
        {"task.chooser.priorities.log.b": "7"}, a={"system": None}, b={"system": None}, piped={"a": [1], "b": [1]}
    )
    assert streams(driver.run()) == "ba"


def test_two_inputs_to_which_configuration_gives_one_name_are_both_read() -> None:
    driver = order_of({"streams.a.samza.physical.name": "b"}, a={}, b={}, piped={"a": [1, 2], "b": [1]})
    assert sorted(streams(driver.run())) == ["a", "a", "b"]


@pytest.mark.parametrize("name", ["starting_alignment", "messages_behind_head", "percent_behind_head"])
def test_streams_are_aligned_by_the_heads_of_now_behind_those_of_the_start(name: str) -> None:
    """Both were read up.

    A has 2 new messages and b 6: b is farther behind, in number, in share, and beyond where it started.
    """
    config = {"task.chooser.class": f"airflow_samza.chooser.factories:{name}"}
    driver = order_of(config, a={"bounded": False}, b={"bounded": False}, piped={"a": range(4), "b": range(4)}).step()
    former = len(streams(driver))
    for stream, count in {"a": 2, "b": 6}.items():
        driver.pipe(stream, [{"id": number, "at": START} for number in range(count)])
    assert streams(driver.step())[former:] in ("bbbbabab", "bbbbbaba")
