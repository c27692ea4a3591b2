"""Expectations of outputs in runs without Spark: judged before publication, which they prevent or let pass."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from airflow_samza import condition, fresh, not_null, rows, unique
from airflow_samza.application.loader import load_application
from airflow_samza.errors import ExpectationFailed, InvalidApplication
from airflow_samza.provider.stats import gauges_of
from airflow_samza.provider.xcoms import summary
from airflow_samza.runs.progress.progress import describe_progress
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.expectations import ExpectationResult
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_state import FAILED, stage_status
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import StreamSpec
from airflow_samza.testing import TestDriver
from tests.support.expecting_apps import APPLICATION, EXPECT, Orders


def order(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "member": f"m{number % 3}", "amount": number, "at": "2026-01-01T23:30:00Z", **more}


GOOD = [order(number) for number in range(10)]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Orders]:
    EXPECT.clear()
    yield Orders(tmp_path)
    EXPECT.clear()


class Died(BaseException):
    """The death of a process."""


@contextmanager
def dying_at(step: str, after: int = 0) -> Iterator[None]:
    """Have this process end at a step, as far as that can be: nothing catches it."""
    left = [after]

    def reach(reached: str) -> None:
        if reached == step:
            left[0] -= 1
            if left[0] < 0:
                raise Died

    with ExitStack() as stack:
        for module in ("airflow_samza.runs.finish", "airflow_samza.engine.task_section"):
            stack.enter_context(mock.patch(f"{module}.reach", reach))
        yield


def run(lake: Orders, run_id: str = "one", **more: Any) -> RunPlan:
    return lake.whole(APPLICATION, run_id, **more)


def results(lake: Orders, plan: RunPlan) -> list[ExpectationResult]:
    return [each for output in lake.result(plan).outputs for each in output.expectations]


DAY = DataInterval(datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 1, 2, tzinfo=timezone.utc))


def others(lake: Orders, topic: str = "others") -> list[dict[str, Any]]:
    """Return what is in a topic of the log; nothing where there is none."""
    return lake.rows(topic) if topic in lake.log.metadata([StreamSpec(topic)]) else []


def fails(lake: Orders, *expected: Any, data: Any = None, run_id: str = "one", **more: Any) -> str:
    """Run what does not meet an expectation, and return the sentence."""
    EXPECT["output"] = list(expected)
    lake.write(GOOD if data is None else data)
    before = sorted(map(str, lake.published())), others(lake)
    with pytest.raises(ExpectationFailed) as failed:
        run(lake, run_id, **more)
    assert (sorted(map(str, lake.published())), others(lake)) == before, "nothing of the stage is published"
    assert not failed.value.retryable
    return failed.value.sentence


def test_publishes_what_meets_all_expectations_and_records_each(lake: Orders) -> None:
    EXPECT["output"] = [
        unique("id"),
        not_null("member"),
        "amount >= 0",
        rows(at_least=1, change=0.5),
        fresh("at", "2 hours"),
    ]
    lake.write(GOOD)
    plan = run(lake, interval=DAY)
    assert sorted(row["id"] for row in lake.published()) == list(range(10))
    assert [(each.expectation, each.outcome, each.rows, each.failed) for each in results(lake, plan)] == [
        ("unique(id)", "passed", 10, 0),
        ("not_null(member)", "passed", 10, 0),
        ("amount >= 0", "passed", 10, 0),
        ("rows(at_least=1, change=0.5)", "passed", 10, 0),
        ("fresh(at, 2 hours)", "passed", 10, 0),
    ]
    assert not list(lake.root.rglob("keys/*")), "the keys are deleted"


def test_publishes_nothing_with_a_key_twice_in_one_task_or_in_two(lake: Orders) -> None:
    sentence = fails(lake, unique("id"), data=[*GOOD, order(3), order(4), order(4)])
    assert sentence.startswith(
        "The output 'copies' does not meet the expectation unique(id): 3 rows whose key comes before, of 13, such as id="
    )
    assert sentence.endswith("; nothing of the stage is published.")


def test_compares_no_keys_with_a_null_and_all_columns_of_a_key(lake: Orders) -> None:
    EXPECT["output"] = [unique(["id", "member"])]
    lake.write([order(1), order(1, member="other"), order(1, member=None), order(1, member=None)])
    assert [each.outcome for each in results(lake, run(lake))] == ["passed"]


def test_publishes_nothing_with_a_null_or_a_condition_that_is_false(lake: Orders) -> None:
    data = [*GOOD, order(10, member=None), order(11, amount=-1)]
    assert "not_null(member): 1 of 12 rows, such as {" in fails(lake, not_null("member"), data=data)
    assert "amount >= 0: 1 of 12 rows, such as {" in fails(lake, "amount >= 0", data=data, run_id="two")


def test_a_condition_holds_where_it_is_null_and_not_where_it_cannot_be_evaluated(lake: Orders) -> None:
    EXPECT["output"] = [condition("amount >= 0", on_error="warn"), condition("10 / amount > 0", on_error="warn")]
    lake.write([order(1, amount=None), order(2, amount=-2), order(3, amount=0), order(4)])
    assert [(each.outcome, each.failed) for each in results(lake, run(lake))] == [("warned", 1), ("warned", 2)]


def test_says_all_that_fails_in_one_sentence(lake: Orders) -> None:
    sentence = fails(lake, "amount < 5", not_null("member"), unique("member"), data=[*GOOD, order(10, member=None)])
    assert "amount < 5: 6 of 11 rows" in sentence
    assert "nor do these: not_null(member) of 'copies': 1 of 11 rows; unique(member) of 'copies': 7 rows" in sentence


def test_a_warning_publishes_and_is_on_record(lake: Orders) -> None:
    EXPECT["output"] = [unique("member", on_error="warn"), condition("amount < 5", on_error="warn")]
    lake.write(GOOD)
    (one, other) = results(lake, run(lake))
    assert (one.outcome, one.failed, one.found) == ("warned", 7, "7 rows whose key comes before, of 10")
    assert (other.outcome, other.failed, other.found) == ("warned", 5, "5 of 10 rows")
    assert len(lake.published()) == 10


def test_drops_rows_of_that_output_only_and_judges_the_others(lake: Orders) -> None:
    EXPECT["output"] = [
        condition("amount < 5", on_error="drop"),
        not_null("member", on_error="drop"),
        "amount <= 4",
        rows(at_most=4),
    ]
    lake.write([*GOOD, order(10, member=None), order(2, member=None)])
    with pytest.raises(ExpectationFailed, match=r"rows\(at_most=4\): 5 rows, and at most 4 are expected"):
        run(lake)
    EXPECT["output"][3] = rows(at_most=5)
    plan = run(lake, "two")
    assert sorted(row["id"] for row in lake.published()) == [0, 1, 2, 3, 4]
    assert len(others(lake)) == 12
    assert [(each.outcome, each.rows, each.failed) for each in results(lake, plan)] == [
        ("dropped", 12, 6),
        ("dropped", 12, 2),
        ("passed", 5, 0),
        ("passed", 5, 0),
    ]
    facts = lake.result(plan).task_facts
    assert sum(value for name, value in facts.items() if name.startswith("dropped_messages.")) == 7


def test_sends_rows_to_a_stream_of_dead_letters_each_once(lake: Orders) -> None:
    EXPECT["output"] = lambda bad: [not_null("member", on_error=bad), condition("amount < 5", on_error=bad)]
    lake.write([*GOOD, order(10, member=None)])
    plan = run(lake)
    assert sorted(row["id"] for row in lake.published()) == [0, 1, 2, 3, 4]
    letters = others(lake, "bad")
    assert sorted(int(letter["message"].split('"id":')[1].split(",")[0]) for letter in letters) == [5, 6, 7, 8, 9, 10]
    assert {letter["error"] for letter in letters} == {
        "It does not meet the expectation amount < 5 of output stream 'copies'.",
        "It does not meet the expectation not_null(member) of output stream 'copies'.",
    }
    assert {letter["stream"] for letter in letters} == {"orders"}
    assert [(each.outcome, each.failed) for each in results(lake, plan)] == [("dead letters", 1), ("dead letters", 6)]


def test_compares_the_number_of_rows_with_the_run_that_published_last(lake: Orders) -> None:
    EXPECT["output"] = [rows(change=0.5)]
    lake.write(GOOD)
    assert results(lake, run(lake))[0].outcome == "passed"
    sentence = fails(lake, rows(change=0.5), data=GOOD[:4], run_id="two")
    assert "rows(change=0.5): 4 rows, 60% fewer than the 10 of the run 'one'" in sentence
    EXPECT["output"] = [rows(change=0.5)]
    lake.write(GOOD[:5])
    assert results(lake, run(lake, "three"))[0].outcome == "passed"
    sentence = fails(lake, rows(change=0.5), data=GOOD, run_id="four")
    assert "10 rows, 100% more than the 5 of the run 'three'" in sentence


def test_a_run_is_not_compared_with_itself_and_looks_at_one_record(lake: Orders) -> None:
    EXPECT["output"] = [rows(change=0.5)]
    lake.write(GOOD)
    run(lake)
    lake.write(GOOD[:6])
    plan = run(lake, "two")
    for generation in (2, 3):
        lake.stages(plan, generation=generation)
        (result,) = (each for output in result_of(lake, plan, generation).outputs for each in output.expectations)
        assert result.outcome == "passed"
    shutil.rmtree(lake.root / "runs" / "expecting" / "one")
    assert "2 rows, 67% fewer than the 6 of the run 'two'" in fails(
        lake, rows(change=0.5), data=GOOD[:2], run_id="three"
    )
    note = json.loads((lake.root / "rows/expecting/copies.json").read_text())
    assert note["runs"] == [["two", 6], ["one", 10]]


def result_of(lake: Orders, plan: RunPlan, generation: int) -> StageResult:
    return lake.runtime.finish(lake.handle(plan, generation))


def test_compares_the_latest_time_with_the_end_of_the_interval_or_with_now(lake: Orders) -> None:
    sentence = fails(lake, fresh("at", "10 minutes"), interval=DAY)
    assert "fresh(at, 10 minutes): the latest is 30 minutes before the end of the data interval" in sentence
    sentence = fails(lake, fresh("at", "1 hour"), data=[order(1, at=None)], run_id="two", interval=DAY)
    assert "fresh(at, 1 hour): no row has a time" in sentence
    now = datetime.now(timezone.utc).isoformat()
    EXPECT["output"] = [fresh("at", "1 hour")]
    lake.write([order(1), order(2, at=now)])
    assert results(lake, run(lake, "three"))[0].outcome == "passed"


def test_a_stage_is_run_again_after_its_output_was_rejected(lake: Orders) -> None:
    EXPECT["output"] = [unique("id")]
    lake.write([*GOOD, order(3)])
    plan = lake.plan(APPLICATION, "one")
    with pytest.raises(ExpectationFailed):
        lake.stages(plan)
    handle = lake.handle(plan)
    status = stage_status(open_filesystem(str(lake.root)), handle)
    assert status.state == FAILED
    assert status.error is not None
    assert status.error["rule"] == "expectation-failed"
    with pytest.raises(ExpectationFailed):
        lake.runtime.finish(handle)
    with pytest.raises(ExpectationFailed):  # the same data again
        lake.stages(plan)
    lake.write(GOOD)
    again = lake.plan(APPLICATION, "one", generation=2)
    lake.stages(again)
    assert sorted(row["id"] for row in lake.published()) == list(range(10))


def test_each_epoch_is_judged_before_it_is_published(lake: Orders) -> None:
    """The rows of the epochs before stay; the number of rows is judged at the end."""
    EXPECT.update(output=[unique("id"), "amount < 4", rows(at_least=4)], partitions=1, limit=2)
    lake.write(GOOD[:6], parts=1)
    plan = lake.plan(APPLICATION, "one", mode="pipelined", config={"job.epoch.max.messages": "2"})
    with pytest.raises(ExpectationFailed) as failed:
        lake.stages(plan)
    assert "amount < 4: 2 of 2 rows" in failed.value.sentence
    assert failed.value.sentence.endswith("nothing of the epoch is published.")
    assert sorted(row["id"] for row in lake.published()) == [0, 1, 2, 3]
    assert sorted(row["id"] for row in others(lake)) == [0, 1, 2, 3]


def test_results_are_those_of_all_epochs(lake: Orders) -> None:
    EXPECT.update(output=[unique("member", on_error="warn"), condition("amount < 4", on_error="drop"), rows(at_most=4)])
    EXPECT["partitions"] = 1
    lake.write(GOOD[:6], parts=1)
    plan = lake.plan(APPLICATION, "one", mode="pipelined", config={"job.epoch.max.messages": "2"})
    lake.stages(plan)
    assert sorted(row["id"] for row in lake.published()) == [0, 1, 2, 3]
    assert [(each.outcome, each.rows, each.failed) for each in results(lake, plan)] == [
        ("passed", 4, 0),  # no epoch has a member twice
        ("dropped", 6, 2),
        ("passed", 4, 0),
    ]


@pytest.mark.parametrize("step", ["before-commit", "after-commit", "after-first-publish", "before-result"])
def test_a_process_that_dies_behind_the_check_is_followed_by_one_that_publishes(lake: Orders, step: str) -> None:
    EXPECT["output"] = [unique("id"), "amount >= 0"]
    lake.write(GOOD)
    plan = lake.plan(APPLICATION, "one")
    with dying_at(step), pytest.raises(Died):
        lake.stages(plan)
    result = lake.runtime.finish(lake.handle(plan))
    assert sorted(row["id"] for row in lake.published()) == list(range(10))
    assert [each.outcome for output in result.outputs for each in output.expectations] == ["passed", "passed"]


def test_a_process_that_dies_before_the_check_is_followed_by_one_that_rejects(lake: Orders) -> None:
    EXPECT["output"] = [unique("id")]
    lake.write([*GOOD, order(1)])
    plan = lake.plan(APPLICATION, "one")
    with dying_at("task-after-manifest", after=1), pytest.raises(Died):
        lake.stages(plan)
    with pytest.raises(ExpectationFailed, match="unique"):
        lake.runtime.finish(lake.handle(plan))
    assert lake.published() == []


def test_hides_rows_where_messages_are_not_shown(lake: Orders) -> None:
    hidden = {"job.messages.shown": "false"}
    sentence = fails(lake, unique("id"), "amount < 5", data=[*GOOD, order(3)], config=hidden)
    assert "such as" not in sentence


def test_keys_of_many_rows_are_compared_bucket_by_bucket(lake: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_samza.storage.key_files.AT_ONCE", 5)
    monkeypatch.setattr("airflow_samza.storage.key_files.GROUP_ROWS", 7)
    data = [order(number % 50) for number in range(60)]
    assert "unique(id): 10 rows whose key comes before, of 60" in fails(lake, unique("id"), data=data)


def test_status_xcom_metrics_and_events_say_what_was_found(lake: Orders) -> None:
    EXPECT["output"] = [unique("id"), condition("amount < 8", on_error="warn")]
    lake.write(GOOD)
    plan = lake.plan(APPLICATION, "one")
    lake.stages(plan)
    report = lake.runtime.progress(lake.handle(plan))
    lines = describe_progress(report)
    assert "  copies amount < 8: not met (warning), 2 of 10 rows" in lines
    assert "  copies unique(id): met" in lines
    gauges = {gauge.tags.get("expectation"): gauge.value for gauge in gauges_of(report)}
    assert {name: gauges[name] for name in gauges if name} == {"copies__amount___8": 2, "copies__unique_id_": 0}
    told = summary(plan, [lake.result(plan)])["outputs"]["copies"]["expectations"]
    assert [(each["expectation"], each["outcome"], each["failed"]) for each in told] == [
        ("unique(id)", "passed", 0),
        ("amount < 8", "warned", 2),
    ]


def test_status_says_why_a_stage_was_rejected(lake: Orders) -> None:
    fails(lake, unique("id"), data=[*GOOD, order(3)])
    plan = lake.runtime.load_plan("expecting", "one")
    lines = describe_progress(lake.runtime.progress(lake.handle(plan)))
    assert "  copies unique(id): not met, 1 row whose key comes before, of 11" in lines
    assert "    id=3" in lines


def test_the_test_driver_judges_too() -> None:
    EXPECT.clear()
    EXPECT["output"] = [unique("id"), rows(at_least=2)]
    load = load_application(APPLICATION)
    moment = datetime(2026, 1, 1, tzinfo=timezone.utc)
    one, two = ({"id": number, "member": "a", "amount": 1, "at": moment} for number in (1, 2))
    assert len(TestDriver(load).pipe("orders", [one, two]).run().output("copies")) == 2
    with pytest.raises(ExpectationFailed, match="unique"):
        TestDriver(load).pipe("orders", [one, two, one]).run()
    with pytest.raises(ExpectationFailed, match="1 row, and at least 2 are expected"):
        TestDriver(load).pipe("orders", [one]).run()
    EXPECT.clear()


@pytest.mark.parametrize(("mode", "config"), [("staged", {}), ("pipelined", {"job.epoch.max.messages": "2"})])
def test_an_input_that_does_not_meet_an_expectation_fails_before_anything_is_published(
    lake: Orders, mode: str, config: dict[str, str]
) -> None:
    EXPECT.update(input=["amount >= 0", not_null("member")], limit=2)
    lake.write([order(1, amount=-1), order(2, member=None)])
    with pytest.raises(ExpectationFailed) as failed:
        run(lake, mode=mode, config=config)
    assert failed.value.sentence.startswith("The input 'orders' does not meet the expectation amount >= 0: 1 of ")
    assert (lake.published(), others(lake)) == ([], [])
    assert failed.value.facts["output"] == "orders"


def test_rows_of_an_input_are_dropped_or_sent_to_dead_letters_before_any_operator_sees_them(lake: Orders) -> None:
    EXPECT["input"] = lambda bad: [
        condition("amount < 8", on_error="drop"),
        not_null("member", on_error=bad),
        condition("id <> 3", on_error="warn"),
    ]
    lake.write([*GOOD, order(10, member=None, amount=1)])
    plan = run(lake)
    ids = [0, 1, 2, 3, 4, 5, 6, 7]
    assert sorted(row["id"] for row in lake.published()) == ids
    assert sorted(row["id"] for row in others(lake)) == ids
    (letter,) = others(lake, "bad")
    assert letter["error"] == "It does not meet the expectation not_null(member) of input stream 'orders'."
    assert (letter["stream"], '"id":10' in letter["message"]) == ("orders", True)
    (read,) = lake.result(plan).inputs
    assert read.messages == 11
    assert [(each.expectation, each.outcome, each.rows, each.failed) for each in read.expectations] == [
        ("amount < 8", "dropped", 11, 2),
        ("not_null(member)", "dead letters", 11, 1),
        ("id <> 3", "warned", 8, 1),
    ]
    facts = lake.result(plan).task_facts
    assert sum(value for name, value in facts.items() if name.startswith("dropped_messages.")) == 2
    lines = describe_progress(lake.runtime.progress(lake.handle(plan)))
    assert "  orders id <> 3: not met (warning), 1 of 8 rows" in lines


def test_an_expected_column_is_read_though_no_operator_needs_it(lake: Orders) -> None:
    EXPECT.update(input=["amount < 5"], output=None)
    lake.write(GOOD)
    with pytest.raises(ExpectationFailed, match="amount < 5: 5 of 10 rows"):
        run(lake)


def test_the_test_driver_judges_inputs() -> None:
    EXPECT.clear()
    EXPECT["input"] = ["amount > 0"]
    moment = datetime(2026, 1, 1, tzinfo=timezone.utc)
    one, two = ({"id": number, "member": "a", "amount": number, "at": moment} for number in (0, 1))
    load = load_application(APPLICATION)
    assert len(TestDriver(load).pipe("orders", [two]).run().output("copies")) == 1
    with pytest.raises(ExpectationFailed, match="The input 'orders' does not meet the expectation amount > 0"):
        TestDriver(load).pipe("orders", [one, two]).run()
    EXPECT.clear()


@pytest.mark.parametrize("expected", [unique("id"), rows(at_least=1), fresh("at", "1 hour")], ids=lambda one: one.kind)
def test_expectations_about_all_rows_are_not_of_inputs(lake: Orders, expected: Any) -> None:
    EXPECT["input"] = [expected]
    lake.write(GOOD)
    with pytest.raises(InvalidApplication, match="which is about all rows together"):
        lake.plan(APPLICATION, "one")
