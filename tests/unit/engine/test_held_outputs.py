"""Outputs that wait for an approval: seen by nobody before it, exactly once after it, never after a rejection."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from airflow_samza.cli.app import app as command_line
from airflow_samza.errors import ConfigError, InvalidApplication, SamzaError, StageError
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.runs.held_outputs import WAITING_SECONDS, has_open_outputs, held_outputs
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import describe_result
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.runs.upkeep.retention import sweep_application
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.support import slot_apps
from tests.support.failpoints import HELD_PLACES
from tests.support.held_apps import APPLICATION, HELD, Scores
from tests.support.slot_runs import DELTA, FILES, LOG, TABLE, Outputs

IDS = list(range(10))
NOTHING: tuple[list[int], list[int]] = ([], [])


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Scores]:
    HELD.clear()
    place = Scores(tmp_path)
    place.write(IDS)
    yield place
    HELD.clear()


class Died(BaseException):
    """The death of a process."""


@contextmanager
def dying_at(step: str) -> Iterator[None]:
    """Have this process end at a step, as far as that can be: nothing catches it."""

    def reach(reached: str) -> None:
        if reached == step:
            raise Died

    with ExitStack() as stack:
        for module in ("airflow_samza.runs.finish", "airflow_samza.runs.held_outputs"):
            stack.enter_context(mock.patch(f"{module}.reach", reach))
        yield


def states(lake: Scores, plan: RunPlan) -> set[tuple[str, str]]:
    return {(one.stream_id, one.state) for one in held_outputs(open_filesystem(str(lake.root)), plan)}


MODES = [("staged", {}), ("pipelined", {"job.epoch.max.messages": "2"})]


@pytest.mark.parametrize(("mode", "config"), MODES, ids=["batch", "pipelined"])
@pytest.mark.parametrize("by_key", [False, True], ids=["one stage", "two stages"])
def test_nobody_sees_it_before_the_approval_and_all_of_it_after(
    lake: Scores, mode: str, config: dict[str, str], by_key: bool
) -> None:
    HELD["by_key"] = by_key
    plan = lake.whole(APPLICATION, "one", mode=mode, config=config)
    assert lake.seen() == NOTHING
    assert lake.in_topic("seen") == IDS, "what does not wait is published at once"
    assert states(lake, plan) == {("good", "waits"), ("topic", "waits")}
    published = lake.runtime.publish(plan, "ann")
    assert lake.seen() == (IDS, IDS)
    assert states(lake, plan) == {("good", "published"), ("topic", "published")}
    assert {one.who for one in published} == {"ann"}  # type: ignore[union-attr]  # no branches here
    lake.runtime.publish(plan, "bob")
    assert lake.seen() == (IDS, IDS), "again, it changes nothing"


def test_a_pipelined_stage_of_many_epochs_keeps_the_records_of_all(lake: Scores) -> None:
    ids = list(range(60))
    HELD["input"] = {"partitions": 1}
    lake.write(ids[::2], parts=1)
    lake.write(ids[1::2], "more", parts=1)
    (lake.lake / "in" / "scores-1.json").unlink()
    plan = lake.whole(APPLICATION, "one", mode="pipelined", config={"job.epoch.max.messages": "1"})
    (stage,) = plan.plan.stages
    assert lake.runtime.finish(lake.runtime_handle(plan, stage.stage_id)).epochs > 40, "more than are kept otherwise"
    lake.runtime.publish(plan)
    assert lake.seen() == (ids, ids)


def test_a_rejection_discards_it_for_good(lake: Scores) -> None:
    plan = lake.whole(APPLICATION, "one")
    assert lake.staged()
    given_up = lake.runtime.give_up(plan, "ann")
    assert "was rejected by ann, and is discarded; readers have seen nothing of it." in str(given_up[0])
    assert lake.seen() == NOTHING
    assert not lake.staged(), "what was staged is deleted"
    lake.runtime.give_up(plan, "bob")
    with pytest.raises(StageError, match=r"'good' of the run 'one' cannot be published: ann has rejected it\."):
        lake.runtime.publish(plan)
    assert lake.seen() == NOTHING


def test_an_approval_cannot_be_taken_back(lake: Scores) -> None:
    plan = lake.whole(APPLICATION, "one")
    lake.runtime.publish(plan, "ann")
    with pytest.raises(StageError, match="cannot be rejected: ann has approved it"):
        lake.runtime.give_up(plan, "bob")
    assert lake.seen() == (IDS, IDS)


@pytest.mark.parametrize("decided", ["nothing", "rejected", "approved"])
def test_a_clear_discards_what_waits_and_the_next_output_waits_anew(lake: Scores, decided: str) -> None:
    plan = lake.whole(APPLICATION, "one")
    before = NOTHING
    if decided == "rejected":
        lake.runtime.give_up(plan)
    elif decided == "approved":
        lake.runtime.publish(plan)
        before = (IDS, IDS)
    lake.stages(plan, generation=2)
    assert lake.seen() == before, "readers see the approved output until the next one is approved"
    if decided == "nothing":
        lake.runtime.publish(plan)  # the cleared stage's
        assert lake.seen() == (IDS, IDS)
        before = (IDS, IDS)
    lake.write([*IDS, 10])
    again = lake.plan(APPLICATION, "one", generation=2)
    assert lake.seen() == before
    with pytest.raises(StageError, match="cannot be published: its stage"):
        lake.runtime.publish(again)
    lake.stages(again)
    assert lake.seen() == before
    lake.runtime.publish(again)
    assert lake.seen() == ([*IDS, 10], [*IDS, 10])


@pytest.mark.parametrize("decided", ["nothing", "rejected", "approved"])
def test_a_plan_made_anew_keeps_a_result_only_if_it_was_approved(lake: Scores, decided: str) -> None:
    plan = lake.whole(APPLICATION, "one")
    if decided == "rejected":
        lake.runtime.give_up(plan)
    elif decided == "approved":
        lake.runtime.publish(plan)
    (reuse,) = lake.plan(APPLICATION, "one", generation=2).reuse.values()
    if decided == "approved":
        assert "was not approved" not in reuse.why
    else:
        assert (reuse.kept, reuse.why) == ("", "what it wrote to good was not approved, and is discarded")


@pytest.mark.parametrize(("mode", "config"), MODES, ids=["batch", "pipelined"])
@pytest.mark.parametrize("step", HELD_PLACES)
def test_a_process_that_dies_while_it_publishes_is_followed_by_one_that_publishes_once(
    lake: Scores, step: str, mode: str, config: dict[str, str]
) -> None:
    plan = lake.whole(APPLICATION, "one", mode=mode, config=config)
    with dying_at(step), pytest.raises(Died):
        lake.runtime.publish(plan, "ann")
    assert states(lake, plan) == {("good", "approved"), ("topic", "approved")}
    with pytest.raises(StageError, match="ann has approved it"):
        lake.runtime.give_up(plan)
    lake.runtime.publish(plan, "bob")
    assert lake.seen() == (IDS, IDS)
    assert {one.who for one in held_outputs(open_filesystem(str(lake.root)), plan)} == {"ann"}


def test_a_process_that_dies_while_it_discards_is_followed_by_one_that_discards(lake: Scores) -> None:
    plan = lake.whole(APPLICATION, "one")
    with dying_at("held-after-decision"), pytest.raises(Died):
        lake.runtime.give_up(plan)
    with pytest.raises(StageError, match="has rejected it"):
        lake.runtime.publish(plan)
    lake.runtime.give_up(plan)
    assert lake.seen() == NOTHING
    assert not lake.staged()


@pytest.mark.parametrize("step", ["before-commit", "after-commit", "after-first-publish", "before-result"])
def test_a_stage_that_dies_around_its_commit_publishes_nothing_that_waits(lake: Scores, step: str) -> None:
    plan = lake.plan(APPLICATION, "one")
    with dying_at(step), pytest.raises(Died):
        lake.stages(plan)
    assert lake.seen() == NOTHING
    with pytest.raises(StageError, match="has not succeeded"):
        lake.runtime.publish(plan)
    lake.stages(plan)
    assert lake.seen() == NOTHING
    lake.runtime.publish(plan)
    assert lake.seen() == (IDS, IDS)


def test_runs_wait_each_for_itself_and_a_later_run_replaces_what_was_approved(lake: Scores) -> None:
    first = lake.whole(APPLICATION, "one")
    lake.write([20, 21])
    second = lake.whole(APPLICATION, "two")
    lake.runtime.publish(first)
    assert lake.seen() == (IDS, IDS)
    lake.runtime.publish(second)
    assert lake.seen() == ([*IDS, 20, 21], [*IDS, 20, 21])


@pytest.mark.parametrize("application", [FILES, LOG, TABLE, DELTA], ids=["files", "log", "iceberg", "delta"])
def test_each_system_keeps_it_back_and_a_rerun_of_the_interval_replaces_the_approved_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, application: str
) -> None:
    monkeypatch.setitem(slot_apps.OUTPUT, "publish", "after approval")
    outputs = Outputs(tmp_path)
    outputs.day(1, 1, 2)
    plan = outputs.run(application, "monday", 1)
    assert reads(outputs, application) == []
    outputs.here.runtime.publish(plan)
    assert outputs.rows(application) == [1, 2]
    outputs.day(1, 3)
    rejected = outputs.run(application, "by-hand", 1)
    outputs.here.runtime.give_up(rejected)
    assert outputs.rows(application) == [1, 2]
    approved = outputs.run(application, "by-hand-again", 1)
    outputs.here.runtime.publish(approved)
    assert outputs.rows(application) == [3]
    outputs.day(2, 4)
    other = outputs.run(application, "tuesday", 2)
    assert outputs.rows(application) == [3]
    outputs.here.runtime.publish(other)
    assert outputs.rows(application) == [3, 4]


def reads(outputs: Outputs, application: str) -> list[int]:
    """Return what readers find; nothing where there is no table yet."""
    with contextlib.suppress(SamzaError):
        return outputs.rows(application)
    return []


def test_a_run_that_waits_is_kept_by_retention_and_its_staged_output_too(lake: Scores) -> None:
    waiting = lake.whole(APPLICATION, "one")
    lake.whole(APPLICATION, "two")
    files = open_filesystem(str(lake.root))
    systems = bind_systems(run_bindings(waiting.systems, lake.bindings), files.root)
    later = time.time() + WAITING_SECONDS - 3600
    swept = sweep_application(files, lambda _: systems, "held", Keep(1, 1.0), now=later)
    assert "its output waits for approval (airflow-samza publish)" in swept.kept.values()
    lake.runtime.publish(waiting)
    assert lake.in_topic() == IDS
    swept = sweep_application(files, lambda _: systems, "held", Keep(1, 1.0), now=later)
    assert "held/one" in swept.runs


def test_output_that_waits_for_too_long_expires(lake: Scores) -> None:
    plan = lake.whole(APPLICATION, "one")
    files = open_filesystem(str(lake.root))
    assert has_open_outputs(files, plan)
    later = time.time() + WAITING_SECONDS + 60
    assert not has_open_outputs(files, plan, later)
    with (
        mock.patch("airflow_samza.runs.held_outputs.time.time", return_value=later),
        pytest.raises(StageError, match=r"cannot be published: it has waited until \d{4}-\d\d-\d\d \d\d:\d\d UTC"),
    ):
        lake.runtime.publish(plan)


def test_result_says_that_it_is_held(lake: Scores) -> None:
    plan = lake.whole(APPLICATION, "one")
    result = lake.runtime.finish(lake.runtime_handle(plan, plan.plan.stages[0].stage_id))
    lines = [line.split()[0:2] for line in describe_result(result)]
    assert ["holds", "good"] in lines
    assert ["wrote", "seen"] in lines
    assert json.loads(json.dumps(held_outputs(open_filesystem(str(lake.root)), plan)[0].told))["state"] == "waits"


def test_rejects_a_continuous_run(lake: Scores) -> None:
    HELD["input"] = {"bounded": False}
    with pytest.raises(ConfigError, match='has publish="after approval", and a continuous run does not end'):
        lake.plan(APPLICATION, "one", mode="continuous")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"publish": "later"}, "has publish='later', which is not known"),
        ({"branch": "audit"}, 'has branch= and publish="after approval", and both keep it back'),
    ],
)
def test_rejects_what_it_does_not_know(lake: Scores, options: dict[str, str], sentence: str) -> None:
    HELD["files"] = options
    with pytest.raises(InvalidApplication, match=sentence):
        lake.plan(APPLICATION, "one")


def test_rejects_to_publish_or_discard_where_nothing_waits(lake: Scores) -> None:
    HELD.update(files={"publish": "at once"}, log={"publish": "at once"})
    plan = lake.whole(APPLICATION, "one")
    assert lake.seen() == (IDS, IDS)
    for act in (lake.runtime.publish, lake.runtime.give_up):
        with pytest.raises(StageError, match="keeps no output back: all of it is visible"):
            act(plan)


def test_rejects_to_discard_where_no_stage_has_ended(lake: Scores) -> None:
    plan = lake.plan(APPLICATION, "one")
    with pytest.raises(StageError, match="that writes an output which waits for approval has succeeded"):
        lake.runtime.give_up(plan)


def command(lake: Scores, *words: str) -> str:
    """Return what the command line says."""
    options = ["--root", str(lake.root), "--system", f"lake=files:{lake.lake}"]
    done = CliRunner().invoke(command_line, [*words, *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_line_says_what_waits_approves_and_rejects(lake: Scores) -> None:
    lake.whole(APPLICATION, "one")
    assert "  The output 'good' (10 messages for lake.good) waits for approval until " in command(
        lake, "status", "held"
    )
    (waiting, _) = json.loads(command(lake, "status", "held", "--json"))["held"]
    assert (waiting["stream"], waiting["state"], waiting["rows"]) == ("good", "waits", 10)
    assert "The output 'good' (10 messages for lake.good) was approved by " in command(lake, "publish", "held", "one")
    assert lake.seen() == (IDS, IDS)
    assert "and is published." in command(lake, "status", "held")
    lake.whole(APPLICATION, "two")
    (told, _) = [json.loads(line) for line in command(lake, "publish", "held", "two", "--drop", "--json").splitlines()]
    assert (told["stream"], told["state"]) == ("good", "discarded")
    assert lake.seen() == (IDS, IDS)
    assert "was rejected by " in command(lake, "status", "held", "two")


def test_a_catch_up_goes_on_behind_runs_that_wait_and_each_is_decided_for_itself(lake: Scores) -> None:
    HELD["input"] = {"slice": "checkpoint"}
    first = lake.whole(APPLICATION, "one")
    lake.write([20, 21], "second")
    second = lake.whole(APPLICATION, "two")
    lake.write([30], "third")
    third = lake.whole(APPLICATION, "three")
    assert lake.seen() == NOTHING
    assert lake.in_topic("seen") == [*IDS, 20, 21, 30], "each run has read what is new"
    lake.runtime.publish(second)
    assert lake.seen() == ([20, 21], [20, 21])
    lake.runtime.give_up(third)
    lake.runtime.publish(first)
    assert lake.seen() == ([*IDS, 20, 21], [*IDS, 20, 21])
    lake.write([40], "fourth")
    lake.runtime.publish(lake.whole(APPLICATION, "four"))
    assert lake.seen() == ([*IDS, 20, 21, 40], [*IDS, 20, 21, 40]), "what was rejected was read all the same"


@pytest.mark.parametrize("application", [FILES, LOG, TABLE, DELTA], ids=["files", "log", "iceberg", "delta"])
def test_days_of_a_backfill_are_approved_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, application: str
) -> None:
    monkeypatch.setitem(slot_apps.OUTPUT, "publish", "after approval")
    outputs = Outputs(tmp_path)
    plans = {}
    for number in (1, 2, 3):
        outputs.day(number, number, 10 * number)
        plans[number] = outputs.run(application, f"backfill-{number}", number)
    assert reads(outputs, application) == []
    outputs.here.runtime.publish(plans[3])
    assert outputs.rows(application) == [3, 30]
    outputs.here.runtime.give_up(plans[2])
    outputs.here.runtime.publish(plans[1])
    assert outputs.rows(application) == [1, 3, 10, 30]
    outputs.day(2, 7)
    outputs.here.runtime.publish(outputs.run(application, "backfill-2-again", 2))
    assert outputs.rows(application) == [1, 3, 7, 10, 30]
