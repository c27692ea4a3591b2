"""Runs that are compared with others: of every kind of output, with state, in any mode; and what may be published."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import ConfigError, SamzaError, StageError, StateError, TopicError, UnknownName
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.compared_runs import written_rows
from airflow_samza.runs.held_outputs import WAITING_SECONDS
from airflow_samza.runs.progress.run_list import note_origin
from airflow_samza.runs.records.comparison import Comparison, OutputComparison, comparison_lines
from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.runs.upkeep.retention import sweep_application
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.maintenance import expire
from airflow_samza.systems.system import SystemBinding
from tests.support.compared_apps import EDIT
from tests.support.iceberg_lake import table_of
from tests.support.pushes import Pushes
from tests.support.runs_here import Here
from tests.support.slot_runs import Outputs, days

APPS = "tests.support.compared_apps"
SALES = f"{APPS}:sales"
PLACES = ("sales", "sales_as_json", "sales_in_log", "sales_in_iceberg", "sales_in_delta")


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Outputs]:
    EDIT.clear()
    made = Outputs(tmp_path)
    made.day(1, *range(20))
    yield made
    EDIT.clear()


def compared(
    here: Here, application: str, run_id: str = "two", as_of: str | None = None, other: str | None = None, **more: Any
) -> tuple[RunPlan, Comparison]:
    """Run an application over what another run has read, and compare them."""
    asked = RunRequest(application, run_id, mode=more.pop("mode", None), config=more.pop("config", {}))
    plan = here.runtime.prepare(here.runtime.request_to_compare(asked, as_of, other))
    note_origin(open_filesystem(str(here.root)), RunFolder(plan.application, plan.run_id), {})
    if plan.stages_run_concurrently:
        stages = [threading.Thread(target=here.stages, args=(plan, one.stage_id)) for one in plan.plan.stages]
        for stage in stages:
            stage.start()
        for stage in stages:
            stage.join()
    else:
        here.stages(plan)
    here.runtime.close(plan)
    return plan, here.runtime.compare(plan, **more)


def of(comparison: Comparison, stream_id: str = "out") -> OutputComparison:
    return next(output for output in comparison.outputs if output.stream_id == stream_id)


def counts(output: OutputComparison) -> tuple[int, ...]:
    return output.same, output.added, output.gone, output.different


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_application_is_equal(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    plan, comparison = compared(outputs.here, SALES)
    assert comparison.is_equal
    assert plan.interval == ("2013-01-01T00:00:00+00:00", "2013-01-02T00:00:00+00:00")
    assert [(one.stream_id, *counts(one)) for one in comparison.outputs] == [("out", 20, 0, 0, 0), ("sums", 2, 0, 0, 0)]
    assert next(comparison_lines(comparison)) == "Run two of sales compared with the run one: equal"


@pytest.mark.parametrize("place", PLACES)
def test_an_edit_shows_and_nothing_of_the_first_run_changes(outputs: Outputs, place: str, tmp_path: Path) -> None:
    application = f"{APPS}:{place}"
    outputs.run(application, "one", 1)
    before = contents(tmp_path)
    edited = "if(n = 5, -1, n) as n", "if(n < 9, 0, n * 10) as cents", "concat('n', n) as name"
    EDIT.update(where="n >= 2", select=edited)
    _, comparison = compared(outputs.here, application)
    out = of(comparison)
    assert out.key == ("n",)
    assert counts(out) == (11, 1, 3, 6)
    assert out.columns == {"cents": 6}
    assert out.samples["added"] == ({"n": "***"},)
    after = contents(tmp_path)
    assert {path: after.get(path) for path in before} == before, "no file of the first is changed or gone"
    new = [path for path in after.keys() - before.keys() if "/runs/sales/two/" not in path]
    staged = ("/staging/", "/segments/", "/data/samza-", "/sales/samza-", "/topics/sales-1-")
    assert [path for path in new if not any(part in path for part in staged)] == [], "the rest is seen by no reader"


@pytest.mark.parametrize("place", PLACES)
def test_its_outputs_are_published_in_place_of_the_first_runs(outputs: Outputs, place: str) -> None:
    application = f"{APPS}:{place}"
    outputs.run(application, "one", 1)
    EDIT["where"] = "n >= 2"
    plan, comparison = compared(outputs.here, application)
    assert not comparison.is_equal
    assert {one.state for one in outputs.here.runtime.publish(plan, "ann")} == {"published"}  # type: ignore[union-attr]
    EDIT.pop("where")
    _, again = compared(outputs.here, application, "three")
    assert again.with_run == "two", "it has taken the place of the first"
    assert counts(of(again)) == (18, 2, 0, 0)
    _, more = compared(outputs.here, application, "four")
    assert more.with_run == "two", "what was compared, and is not published, is not what others are compared with"


@pytest.mark.parametrize("place", PLACES)
def test_what_a_third_run_has_written_since_is_not_replaced(outputs: Outputs, place: str) -> None:
    application = f"{APPS}:{place}"
    outputs.run(application, "one", 1)
    plan, _ = compared(outputs.here, application)
    outputs.day(1, *range(30))
    outputs.run(application, "three", 1)
    with pytest.raises(StageError, match="the run 'three' has replaced what that wrote"):
        outputs.here.runtime.publish(plan, "ann")
    _, again = compared(outputs.here, application, "four", as_of="three")
    assert (again.with_run, counts(of(again))) == ("three", (30, 0, 0, 0))


def test_of_runs_without_rows_no_rows_are_shown(outputs: Outputs) -> None:
    outputs.day(1)
    outputs.run(SALES, "one", 1)
    _, comparison = compared(outputs.here, SALES)
    assert comparison.is_equal
    assert not any("for example" in line for line in comparison_lines(comparison))


def test_whose_output_was_replaced_is_said_in_a_sentence(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    outputs.run(SALES, "two", 1)
    with pytest.raises(
        TopicError, match=r"Rows that were written to the output 'out' are gone: .*part-.* is not there"
    ):
        compared(outputs.here, SALES, "three", as_of="one")


def test_an_output_and_a_column_of_one_application_only(outputs: Outputs) -> None:
    EDIT["more"] = "former"
    outputs.run(SALES, "one", 1)
    EDIT.update(more="latter", select=("n", "n * 10 as cents", "1 as version"))
    _, comparison = compared(outputs.here, SALES)
    assert not comparison.is_equal
    assert (of(comparison).columns_gone, of(comparison).columns_new) == (("name",), ("version",))
    assert counts(of(comparison)) == (20, 0, 0, 0)
    assert (of(comparison, "former").only_in, of(comparison, "latter").only_in) == ("one", "two")
    text = "\n".join(comparison_lines(comparison))
    assert "former: only in the run one, 20 rows" in text
    assert "columns that are new: version" in text


def test_a_key_may_be_named_and_without_one_rows_are_compared_as_a_whole(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    EDIT["select"] = "n", "if(n < 10, 0, n * 10) as cents", "concat('n', n) as name"
    plan, comparison = compared(outputs.here, SALES)
    assert counts(of(comparison, "sums")) == (1, 1, 1, 0)
    keyed = outputs.here.runtime.compare(plan, {"sums": ["tens"]}, shows=True)
    assert counts(of(keyed, "sums")) == (1, 0, 0, 1)
    assert of(keyed, "sums").columns == {"cents": 1}
    assert of(keyed, "sums").samples["different"] == ({"tens": "0"},)
    stored = read(open_filesystem(str(outputs.here.root)), RunFolder("sales", "two").comparison, Comparison)
    assert stored is not None
    assert of(stored, "sums").samples["different"] == ({"tens": "***"},), "on record keys are masked"
    with pytest.raises(ConfigError, match=r"--key names the output 'sum', and the application 'sales' has none"):
        outputs.here.runtime.compare(plan, {"sum": ["tens"]})


def test_samples_are_left_out_where_messages_are_not_shown(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    EDIT["where"] = "n > 3"
    _, comparison = compared(outputs.here, SALES, config={"job.messages.shown": "false"}, shows=True)
    assert of(comparison).samples == {}


def test_a_compare_run_that_failed_goes_on_where_it_stopped(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    here = outputs.here
    request = here.runtime.request_to_compare(RunRequest(SALES, "two"))
    plan = here.runtime.prepare(request)
    here.stages(plan, plan.plan.stages[0].stage_id)
    here.runtime.close(plan, succeeded=False)
    with pytest.raises(StageError, match="has not succeeded, so its rows cannot be compared"):
        here.runtime.compare(plan)
    with pytest.raises(StageError, match="The run 'two' of 'sales' has not succeeded"):
        here.runtime.request_to_compare(RunRequest(SALES, "three"), "two")
    again = here.runtime.prepare(here.runtime.request_to_compare(RunRequest(SALES, "two")))
    assert again == plan
    here.stages(again, again.plan.stages[1].stage_id)
    assert here.runtime.compare(again).is_equal


def test_input_that_was_deleted_since_is_said_in_a_sentence(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    (outputs.lake / "in/2013-01-01.jsonl").unlink()
    gone = r"'rows' cannot be read as the run 'one' has read it: the file .*2013-01-01\.jsonl is not there any more\."
    with pytest.raises(TopicError, match=gone):
        compared(outputs.here, SALES)


def test_a_file_that_was_written_again_since_is_said_before_anything_runs(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    outputs.day(1, *range(30))
    with pytest.raises(TopicError, match=r"'rows' cannot be read as .* the file .*2013-01-01\.jsonl was written again"):
        compared(outputs.here, SALES)
    assert not RunFolder("sales", "two").plan_generations(open_filesystem(str(outputs.here.root)))


def test_messages_that_have_expired_since_are_said_in_a_sentence(outputs: Outputs) -> None:
    here, either = outputs.here, f"{APPS}:either"
    timed(here, 0, 30)
    here.whole(either, "one")
    time.sleep(0.01)
    expire(here.log.topic("events"), int(time.time() * 1000))
    timed(here, 30, 60)
    with pytest.raises(
        TopicError, match=r"'events' cannot be read as the run 'one' has read it: its messages from offset"
    ):
        compared(here, either)


def test_a_compared_run_is_not_planned_anew_as_one_that_is_seen(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    compared(outputs.here, SALES)
    assert outputs.here.plan(SALES, "two", interval=days(1)).compares == ("sales", "one"), "it goes on by its plan"
    with pytest.raises(ConfigError, match="The run 'two' is compared with the run 'one', and would be published if it"):
        outputs.here.plan(SALES, "two", interval=days(1), generation=2)


def test_input_that_came_since_is_not_read(outputs: Outputs) -> None:
    EDIT["path"] = "in/**"
    outputs.run(SALES, "one", 1)
    outputs.day(2, *range(100, 120))
    _, comparison = compared(outputs.here, SALES)
    assert comparison.is_equal


def test_another_application_over_the_same_input(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    EDIT["where"] = "n < 19"
    other = f"{APPS}:other_sales"
    plan, comparison = compared(outputs.here, other, "two", other="sales")
    assert (comparison.application, comparison.with_application) == ("other-sales", "sales")
    assert counts(of(comparison)) == (19, 0, 1, 0)
    assert of(comparison, "sums").only_in == "one"
    with pytest.raises(TopicError, match="and 'other-sales' may not replace it"):
        outputs.here.runtime.publish(plan)
    assert outputs.here.runtime.request_to_compare(RunRequest(other, "x"), other=SALES).compares == "sales/one"


def test_rows_that_a_system_does_not_give_back_are_said_in_a_sentence(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    run = outputs.here.runtime.load_plan("sales", "one")
    of_no_rows: Any = dict.fromkeys(run.systems, object())
    with pytest.raises(TopicError, match="has written to the output 'out' cannot be read again: its system"):
        list(written_rows(outputs.here.log.filesystem, of_no_rows, run, "out"))


def test_names_that_are_none(outputs: Outputs) -> None:
    runtime = outputs.here.runtime
    with pytest.raises(UnknownName, match=r"No run of 'sales' under .* has succeeded, so there is nothing to compare"):
        runtime.request_to_compare(RunRequest(SALES, "two"))
    outputs.run(SALES, "one", 1)
    with pytest.raises(UnknownName, match="There is no record of a run 'on' of 'sales'"):
        runtime.request_to_compare(RunRequest(SALES, "two"), "on")
    with pytest.raises(ConfigError, match="The run 'one' cannot be compared with itself"):
        runtime.request_to_compare(RunRequest(SALES, "one"))
    with pytest.raises(ConfigError, match="is not compared with another one"):
        runtime.compare(outputs.run(SALES, "three", 1))


def test_a_run_without_an_interval_is_compared_and_not_published(outputs: Outputs) -> None:
    EDIT["path"] = "in/**"
    outputs.run(SALES, "one")
    plan, comparison = compared(outputs.here, SALES)
    assert comparison.is_equal
    with pytest.raises(StageError, match="neither a data interval nor a partition key, by which it would replace"):
        outputs.here.runtime.publish(plan)
    outputs.here.runtime.give_up(plan)


def test_an_output_that_adds_to_what_is_there_is_compared_and_not_published(outputs: Outputs) -> None:
    EDIT["out"] = {"mode": "append"}
    outputs.run(SALES, "one", 1)
    plan, comparison = compared(outputs.here, SALES)
    assert comparison.is_equal
    with pytest.raises(StageError, match=r"in the output 'out': what is written there \(mode='append'\) adds to what"):
        outputs.here.runtime.publish(plan)


def test_rejects_an_output_that_is_upserted(outputs: Outputs) -> None:
    application = f"{APPS}:sales_in_delta"
    EDIT["out"] = {"mode": "upsert", "key": "n", "partition_by": None, "expect": None}
    outputs.run(application, "one", 1)
    with pytest.raises(ConfigError, match="'out' is upserted, and which changes a run has merged into its table"):
        compared(outputs.here, application)


def events(here: Here, *numbers: int) -> None:
    here.log.append("events", pa.table({"n": numbers}), key=["n"], partitions=2)


def test_state_is_that_with_which_the_other_run_began(outputs: Outputs) -> None:
    here, tally = outputs.here, f"{APPS}:tally"
    for run_id in ("one", "two", "three"):
        events(here, 1, 1, 2)
        here.whole(tally, run_id)
    history = contents(here.root / "state")
    _, same = compared(here, tally, "again", as_of="two")
    assert same.is_equal
    EDIT["factor"] = 10
    plan, comparison = compared(here, tally, "edited", as_of="two")
    assert counts(of(comparison, "tally")) == (0, 0, 0, 3)
    assert of(comparison, "tally").columns == {"times": 3}
    with pytest.raises(StageError, match="the application carries state from run to run, and later runs go on from"):
        here.runtime.publish(plan)
    EDIT.clear()
    assert {path: found for path, found in contents(here.root / "state").items() if path in history} == history
    events(here, 2)
    here.whole(tally, "four")
    assert sorted(row["times"] for row in here.rows("tally") if row["n"] == 2) == [1, 2, 3, 4]


def test_state_that_is_not_kept_is_said_in_a_sentence(outputs: Outputs) -> None:
    here, tally = outputs.here, f"{APPS}:tally"
    for run_id in ("one", "two", "three", "four", "five"):
        events(here, 1)
        here.whole(tally, run_id, config={"job.state.versions.keep": "2"})
    with pytest.raises(StateError, match=r"the run 'two' began \(version 1\) is not kept any more"):
        compared(here, tally, "six", as_of="two")


@pytest.mark.parametrize("mode", ["pipelined", "continuous"])
def test_a_continuous_run_over_the_same_input_gives_the_same(outputs: Outputs, mode: str) -> None:
    here, either = outputs.here, f"{APPS}:either"
    schema = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    rows = [{"n": n % 3, "at": n * 7_000_000} for n in range(200)]
    here.log.append("events", pa.Table.from_pylist(rows, schema), key=["n"], partitions=2)
    here.whole(either, "batch")
    here.log.append("events", pa.Table.from_pylist(rows, schema), key=["n"], partitions=2)
    plan, comparison = compared(here, either, "live", mode=mode, config={"job.epoch.max.messages": "10"})
    assert plan.mode == mode
    assert comparison.is_equal, "what came since is not read, and windows that are open at the end give their rows"
    assert of(comparison, "minutes").same > 50
    EDIT["where"] = "times > 2"
    _, edited = compared(here, either, "edited", mode=mode)
    assert of(edited, "minutes").gone > 0


TIMED = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


def timed(here: Here, first: int, end: int) -> None:
    rows = [{"n": n % 3, "at": n * 7_000_000} for n in range(first, end)]
    here.log.append("events", pa.Table.from_pylist(rows, TIMED), key=["n"], partitions=2)


@pytest.mark.parametrize("mode", ["staged", "continuous"])
def test_windows_that_the_other_run_left_open_stay_open(outputs: Outputs, mode: str) -> None:
    here, either, unbounded = outputs.here, f"{APPS}:either", {"job.inputs.bounded": "false"}
    for run_id, first in (("one", 0), ("two", 800)):
        timed(here, first, first + 800)
        here.whole(either, run_id, config=unbounded)
    timed(here, 1600, 2400)
    plan, comparison = compared(here, either, "again", as_of="two", mode=mode)
    assert comparison.is_equal
    assert plan.state is not None
    assert plan.state.version == 1
    assert of(comparison, "minutes").same > 100
    whole = here.whole(either, "three", config={**unbounded, "job.inputs.flush": "true"})
    _, flushed = compared(here, either, "more", as_of=whole.run_id, mode=mode)
    assert flushed.is_equal, "what the other run has flushed is flushed"


def test_a_run_on_a_schedule_is_compared_with_a_continuous_one(outputs: Outputs) -> None:
    here, either = outputs.here, f"{APPS}:either"
    timed(here, 0, 300)
    plan = here.plan(either, "live", mode="continuous", config={"job.inputs.bounded": "false"})
    here.runtime.drain(plan)
    stages = [threading.Thread(target=here.stages, args=(plan, one.stage_id)) for one in plan.plan.stages]
    for stage in stages:
        stage.start()
    for stage in stages:
        stage.join()
    here.runtime.close(plan)
    timed(here, 300, 400)
    compared_plan, comparison = compared(here, either, "batch")
    assert compared_plan.mode == "staged"
    assert comparison.is_equal
    assert of(comparison, "minutes").same > 90


@pytest.mark.parametrize("mode", ["pipelined", "continuous"])
def test_files_of_a_bounded_run_are_all_that_a_continuous_one_reads(outputs: Outputs, mode: str) -> None:
    application, folder = f"{APPS}:minutes_of_files", outputs.lake / "in"
    (folder / "2013-01-01.jsonl").unlink()

    def write(name: str, first: int) -> None:
        times = (f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z" for second in range(first, first + 600, 7))
        lines = [json.dumps({"n": number % 3, "at": at}) for number, at in enumerate(times)]
        (folder / f"{name}.json").write_text("\n".join([*lines, ""]))

    write("a", 0)
    write("b", 700)
    outputs.here.whole(application, "batch")
    write("c", 1400)
    _, comparison = compared(outputs.here, application, "live", mode=mode)
    assert comparison.is_equal
    assert of(comparison, "minutes").same > 50


def test_a_continuous_run_needs_an_input_that_may_be_unbounded(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    with pytest.raises(SamzaError, match=r"job\.inputs\.bounded is false, and every input of the application 'sales'"):
        outputs.here.runtime.request_to_compare(RunRequest(SALES, "two", mode="continuous"))


def test_a_run_of_more_epochs_than_are_kept_is_said_in_a_sentence(outputs: Outputs) -> None:
    EDIT["path"] = "in/**"
    for day in range(2, 30):
        outputs.day(day, day * 100)
    one = outputs.plan(SALES, "one", 1, mode="pipelined", config={"job.epoch.max.messages": "1"})
    outputs.here.stages(one)
    outputs.here.runtime.close(one)
    with pytest.raises(StageError, match=r"had \d+ epochs, and the records of only the last \d+ are kept"):
        compared(outputs.here, SALES, mode="staged")


def test_outputs_that_cannot_be_held_back_are_rejected(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    EDIT["out"] = {"system": "broker", "path": None, "format": None}
    here = Here(
        outputs.here.root,
        bindings={**outputs.bindings, "broker": SystemBinding("kafka", {"bootstrap.servers": "localhost:1"})},
    )
    with pytest.raises(ConfigError, match="'out' is in the system 'broker' of kind kafka, whose rows cannot be read"):
        compared(here, SALES)


@pytest.mark.parametrize("more", [{}, {"slice": "checkpoint"}], ids=["whole", "what is new"])
def test_a_table_is_read_up_to_the_version_that_was_read_whatever_the_filter_is_now(
    tmp_path: Path, more: dict[str, str]
) -> None:
    EDIT.clear()
    schema = pa.schema([("n", pa.int64())])
    table = table_of(tmp_path / "lake", schema)
    for first in (0, 10):
        table.append(pa.table({"n": range(first, first + 10)}, schema))
    here = Here(tmp_path / "root", bindings={"tables": SystemBinding("iceberg", {"root": str(tmp_path / "lake")})})
    EDIT.update(input=more, where="n >= 10")
    here.whole(f"{APPS}:lake_copy", "one")
    tags = {name: one.snapshot_id for name, one in table.refresh().metadata.refs.items() if name != "main"}
    table.append(pa.table({"n": [100, 101]}, schema))
    EDIT["where"] = "n >= 5"
    _, comparison = compared(here, f"{APPS}:lake_copy")
    assert counts(of(comparison, "copy")) == (10, 5, 0, 0), (
        "files that the filter had left out are read, newer ones not"
    )
    assert {name: one.snapshot_id for name, one in table.refresh().metadata.refs.items() if name != "main"} == tags
    EDIT.clear()


def test_a_pushed_table_is_read_in_the_version_that_was_read(tmp_path: Path) -> None:
    EDIT.clear()
    here, pushes = Here(tmp_path), Pushes(tmp_path)
    pushes.push("monday", {1: "gold", 2: "basic"})
    here.log.append("events", pa.table({"id": [1, 2, 3]}), key=["id"], partitions=2)
    here.whole(f"{APPS}:looked_up", "one")
    pushes.push("tuesday", {1: "basic", 2: "gold"})
    _, same = compared(here, f"{APPS}:looked_up")
    assert same.is_equal
    EDIT["tier"] = "coalesce(tier, 'none') as tier"
    plan, edited = compared(here, f"{APPS}:looked_up", "three")
    assert counts(of(edited, "profiled")) == (2, 0, 0, 1)
    assert plan.tables["profiles"]["push_id"] == "monday"
    EDIT.clear()


def test_upkeep_keeps_what_is_compared_as_long_as_it_waits(outputs: Outputs) -> None:
    outputs.run(SALES, "one", 1)
    plan, _ = compared(outputs.here, SALES)
    files = open_filesystem(str(outputs.here.root))
    systems = bind_systems(run_bindings(plan.systems, outputs.bindings), files.root)
    later = time.time() + WAITING_SECONDS - 3600
    swept = sweep_application(files, lambda _: systems, "sales", Keep(1, 1.0), now=later)
    assert "its output waits for approval (airflow-samza publish)" in swept.kept.values()
    outputs.here.runtime.publish(plan)
    assert outputs.rows() == list(range(20))
    after = later + 3 * 86400  # its topic between the stages stays for as long
    assert "sales/two" in sweep_application(files, lambda _: systems, "sales", Keep(1, 1.0), now=after).runs
