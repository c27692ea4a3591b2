"""Runs that read Kafka, without Spark: what the plan fixes, and what runs that follow, retries and clears read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_samza.errors import PlanChanged, SamzaError, TopicError
from airflow_samza.prepare.run_request import RunRequest
from tests.support.budgets import extended_but
from tests.support.kafka_runs import APPS, HOUR, NOON, Running, Runs, hour
from tests.support.kafka_topics import Sent, Topics, numbered
from tests.support.runs_here import slice_of
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


@pytest.fixture
def runs(tmp_path: Path, topics: Topics) -> Runs:
    return Runs(tmp_path, topics, partitions=2)


def test_a_run_reads_what_there_was_when_it_was_planned(runs: Runs) -> None:
    runs.send(1, 2)
    runs.send(3, partition=1)
    plan = runs.plan("copying")
    assert slice_of(plan, "views")["offsets"] == [[0, 2], [0, 1]]
    runs.send(4, 5)
    runs.finish(plan)
    assert runs.ids() == [1, 2, 3]


def test_a_clear_of_the_stage_reads_the_same_offsets(runs: Runs) -> None:
    runs.send(1, 2)
    plan = runs.plan("copying")
    runs.here.stages(plan)
    runs.send(3)
    runs.here.stages(plan, generation=2)
    assert runs.ids() == [1, 2]


def test_a_clear_after_retention_says_how_many_messages_are_gone(runs: Runs) -> None:
    runs.send(1, 2, 3)
    plan = runs.plan("copying")
    runs.here.stages(plan)
    runs.topics.expire(runs.topic, 2)
    with pytest.raises(SamzaError, match="Up to 2 messages of the input range"):
        runs.here.stages(plan, generation=2)
    assert runs.ids() == [1, 2, 3]


def test_an_empty_topic_makes_a_run_that_succeeds(runs: Runs) -> None:
    runs.whole("copying")
    assert runs.ids() == []


def test_hours_in_any_order_read_each_message_once(runs: Runs) -> None:
    times = [NOON + (number * 37 % 180) * 60_000 for number in range(180)]
    for partition in range(2):
        messages = [Sent(f'{{"id":{n + 1000 * partition}}}', at=at, partition=partition) for n, at in enumerate(times)]
        runs.topics.transaction(runs.topic, messages)
    for number in (2, 0, 3, 1):  # the last has none
        runs.whole("hourly", interval=hour(number))
    assert runs.ids() == [*range(180), *range(1000, 1180)]


def test_a_run_continues_where_the_last_one_stopped(runs: Runs) -> None:
    runs.send(1, 2)
    runs.whole("following")
    runs.whole("following")  # there is nothing new
    runs.send(3, partition=1)
    runs.topics.transaction(runs.topic, numbered([99]), end="abort")
    runs.send(4)
    plan = runs.whole("following")
    assert slice_of(plan, "views")["offsets"] == [[2, 5], [0, 1]]
    assert runs.ids() == [1, 2, 3, 4]
    assert slice_of(runs.whole("following"), "views")["offsets"] == [[5, 5], [1, 1]]


def test_a_partition_that_is_new_is_read_from_its_oldest_message(runs: Runs) -> None:
    runs.send(1)
    runs.whole("following")
    _widen(runs, 3)
    runs.send(2, partition=2)
    plan = runs.whole("following")
    assert slice_of(plan, "views")["offsets"] == [[1, 1], [0, 0], [0, 1]]
    assert runs.ids() == [1, 2]


def test_rejects_more_partitions_when_state_lies_by_the_old_ones(runs: Runs) -> None:
    runs.send(1)
    runs.whole("counting")
    _widen(runs, 3)
    with pytest.raises(PlanChanged, match=r"has 3 partitions .* and had 2"):
        runs.plan("counting")


def _widen(runs: Runs, partitions: int) -> None:
    runs.topics.widen(runs.topic, partitions)
    until(lambda: runs.topics.system.brokers.topic(runs.topic).partitions == partitions)


def test_rejects_to_continue_behind_messages_that_are_gone(runs: Runs) -> None:
    runs.send(1, 2)
    runs.whole("following")
    runs.send(3, 4, 5)
    runs.topics.expire(runs.topic, 4)
    with pytest.raises(TopicError, match=r"Up to 2 messages .* partition 0 no longer has the offsets from 2 up to 4"):
        runs.plan("following")


def test_a_stream_that_skips_continues_behind_messages_that_are_gone(
    runs: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    runs.send(1, 2)
    runs.whole("skipping")
    runs.send(3, 4, 5)
    runs.topics.expire(runs.topic, 4)
    plan = runs.whole("skipping")
    assert slice_of(plan, "views")["offsets"] == [[4, 5], [0, 0]]
    assert "Up to 2 messages" in caplog.text
    assert runs.ids() == [1, 2, 5]


@pytest.mark.parametrize("application", ["copying", "following", "skipping"])
def test_a_comparison_with_a_run_whose_messages_have_expired_is_rejected_by_the_plan(
    runs: Runs, application: str
) -> None:
    runs.send(1, 2, 3)
    runs.whole(application, run_id="first")
    config = {"streams.views.samza.physical.name": runs.topic}
    asked = RunRequest(f"{APPS}:{application}", "edited", config=config)
    runs.here.runtime.preview(runs.here.runtime.request_to_compare(asked, "first", None))
    runs.topics.expire(runs.topic, 2)
    says = (
        "The input 'views' cannot be read as the run 'first' has read it: its messages from offset 0 to 2 of partition "
        "0 are not there any more."
    )
    with pytest.raises(TopicError, match=re.escape(says)):
        runs.here.runtime.prepare(runs.here.runtime.request_to_compare(asked, "first", None))
    runs.send(4)
    runs.whole(application, run_id="later")
    runs.topics.expire(runs.topic, 3)
    if application != "copying":  # of the whole topic, a later run reads what is left
        runs.here.runtime.prepare(runs.here.runtime.request_to_compare(asked, "later", None))


@pytest.mark.parametrize("partitions", extended_but([2], [1, 2, 3]))
def test_rejects_to_continue_a_topic_that_was_created_again(runs: Runs, partitions: int) -> None:
    runs.send(1)
    runs.whole("following")
    runs.topics.delete(runs.topic)
    until(lambda: _made_again(runs, partitions))
    runs.send(7, 8, 9)
    with pytest.raises(TopicError, match=r"'views' .*: it was created again"):
        runs.plan("following")


def _made_again(runs: Runs, partitions: int) -> bool:
    from confluent_kafka import KafkaException

    try:
        runs.topics.make(partitions=partitions)
    except KafkaException:  # its deletion takes a moment
        return False
    return True


def test_hours_of_an_unbounded_input_each_read_their_own(runs: Runs) -> None:
    """Messages of an hour stand before others of the hour before: what was read by then is no place to continue from."""
    for number, minutes in enumerate([10, 70, 20, 80, 130]):
        runs.topics.send(runs.topic, [Sent(f'{{"id":{number}}}', at=NOON + minutes * 60_000)])
    for number in range(3):
        runs.whole("following_by_time", interval=hour(number))
    assert runs.ids() == [0, 1, 2, 3, 4]


def test_a_serde_of_one_column_stands_beside_columns_of_kafka(runs: Runs) -> None:
    runs.topics.send(runs.topic, [Sent("a", "1", NOON), Sent("b", "2", NOON + HOUR)])
    runs.whole("keyed_texts", interval=hour(0))
    assert runs.here.rows("copies") == [{"id": 1, "text": "a"}]


def test_a_continuous_run_reads_what_comes_and_the_next_run_goes_on_behind_it(runs: Runs) -> None:
    runs.send(1)
    running = Running(runs, "following")
    running.reads(1)
    runs.send(2, partition=1)
    running.reads(1, 2)
    runs.topics.transaction(runs.topic, numbered([99]), end="abort")
    runs.topics.transaction(runs.topic, numbered([3, 4]))
    running.reads(1, 2, 3, 4)
    runs.here.runtime.stop(running.plan)
    running.join()
    assert not running.errors, running.errors
    runs.here.runtime.close(running.plan)
    runs.send(5)
    runs.whole("following")
    assert runs.ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "again",
    [pytest.param(False, id="deleted", marks=pytest.mark.extended), pytest.param(True, id="created again")],
)
def test_a_continuous_run_ends_with_an_error_when_its_topic_is_another_one(runs: Runs, again: bool) -> None:
    runs.send(1)
    running = Running(runs, "following")
    running.reads(1)
    runs.topics.delete(runs.topic)
    if again:
        until(lambda: _made_again(runs, 2))
        runs.send(7, 8, 9)
    running.join()
    assert ("There is no topic" in str(running.errors[0])) or "created again" in str(running.errors[0])
    assert runs.ids() == [1]


def test_a_continuous_run_ends_with_an_error_when_its_topic_gets_more_partitions(runs: Runs) -> None:
    runs.send(1)
    running = Running(runs, "following")
    running.reads(1)
    _widen(runs, 3)
    running.join()
    assert "has 3 partitions, and the run was planned with 2" in str(running.errors[0])
