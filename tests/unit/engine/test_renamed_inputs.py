"""Inputs that were renamed, moved, removed or are read otherwise: how far one was read is state. No Spark."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import PlanChanged, PlanErrors, SamzaError, StateError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.records import encode
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_upkeep import reset
from airflow_samza.runs.state_history.versions import Version, find_version
from airflow_samza.systems.system import SystemBinding
from tests.support.changing_modules import ChangingModules
from tests.support.runs_here import Here, slice_of

HEAD = """
from airflow_samza import count, stream_application, sum_, system_time, tumbling

VIEW = "member bigint, n bigint, at timestamp"

@stream_application("changing"{options})
def app(app):
"""

WINDOW = (
    'window(tumbling("1 hour"), key="member", total=sum_("n"), id="hourly").send_to(app.output_stream("out", '
    'system="log"))'
)
SECOND = 1_000_000
DAY, NEXT_DAY = DataInterval.from_iso("2026-01-01", "2026-01-02"), DataInterval.from_iso("2026-01-02", "2026-01-03")

Write = Callable[..., str]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    modules = ChangingModules(tmp_path, monkeypatch)

    def write(*lines: str, options: str = "") -> str:
        modules.write("changed_app", HEAD.format(options=options) + "".join(f"    {line}\n" for line in lines))
        return "changed_app:app"

    return write


class Place:
    """A root, a lake into which files come, and runs of an application that changes."""

    def __init__(self, folder: Path) -> None:
        self.here = Here(folder / "root")
        self.lake = folder / "lake"
        self.bindings = {"lake": SystemBinding("files", {"root": str(self.lake)})}
        self._time = 1_700_000_000

    @property
    def runtime(self) -> SparkRuntime:
        return SparkRuntime(str(self.here.root), self.bindings)

    def topic(self, name: str, *numbers: int, second: int = 1) -> None:
        count = len(numbers)
        columns = {"member": [1] * count, "n": list(numbers), "at": [second * SECOND] * count}
        types = [("member", pa.int64()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))]
        self.here.log.append(name, pa.table(columns, schema=pa.schema(types)), key=["member"], partitions=1)

    def file(self, name: str, *numbers: int, second: int = 1) -> None:
        """Write a file, later than all before."""
        path = self.lake / name
        path.parent.mkdir(parents=True, exist_ok=True)
        at = f"1970-01-01T{second // 3600:02}:00:{second % 60:02}Z"
        path.write_text("".join(json.dumps({"member": 1, "n": n, "at": at}) + "\n" for n in numbers))
        self._time += 1
        os.utime(path, (self._time,) * 2)

    def plan(self, application: str, run: str, **more: Any) -> RunPlan:
        return self.runtime.prepare(RunRequest(application, run, **more))

    def run(self, application: str, run: str, **more: Any) -> RunPlan:
        plan = self.plan(application, run, **more)
        self.here.stages(plan, bindings=self.bindings)
        self.runtime.close(plan)
        return plan

    def rejected(self, application: str, run: str = "run-2", **more: Any) -> SamzaError:
        with pytest.raises(PlanChanged) as caught:
            self.plan(application, run, **more)
        with pytest.raises(PlanChanged):  # what shows a plan says the same
            self.runtime.preview(RunRequest(application, run, **more))
        return caught.value

    def version(self, number: int = 1) -> Version:
        found = find_version(self.here.log.filesystem, StateHistory("changing"), number)
        assert found is not None
        return found

    def totals(self) -> list[int]:
        return [row["total"] for row in self.here.rows("out")]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def topic(name: str = "events", more: str = "") -> str:
    return (
        f'rows = app.input_stream("{name}", system="log", schema=VIEW, timestamp="at", max_delay=0, '
        f'slice="checkpoint"{more})'
    )


def files(name: str = "events", path: str = "in/*.json", system: str = "lake", more: str = "") -> str:
    return (
        f'rows = app.input_stream("{name}", system="{system}", schema=VIEW, timestamp="at", max_delay=0, path="{path}", '
        f'format="json", slice="checkpoint"{more})'
    )


PHYSICAL = {"streams.views.samza.physical.name": "events"}


def test_rejects_a_renamed_input_that_would_be_read_again(place: Place, written: Write) -> None:
    place.file("in/a.json", 3, 4)
    place.run(written(files(), f"rows.{WINDOW}"), "run-1")
    error = place.rejected(written(files("views"), f"rows.{WINDOW}"))
    assert error.sentence == (
        "Version 1 holds how far the input 'events' was read, and the application 'changing' has no such input any more."
    )
    assert "set renamed_from='events' on 'views', which lies where it lay" in (error.hint or "")
    assert "dropped=['events']" in (error.hint or "")
    assert error.facts["stream"] == "events"


def test_rejects_a_renamed_input_of_a_topic(place: Place, written: Write) -> None:
    place.topic("events", 3, 4)
    place.run(written(topic(), f"rows.{WINDOW}"), "run-1")
    error = place.rejected(written(topic("views"), f"rows.{WINDOW}"), config=PHYSICAL)
    assert "how far the input 'events' was read" in error.sentence


def test_rejects_a_renamed_input_of_an_application_without_other_state(place: Place, written: Write) -> None:
    copied = 'rows.send_to(app.output_stream("out", system="log"))'
    place.file("in/a.json", 3, 4)
    place.run(written(files(), copied), "run-1")
    assert "how far the input 'events' was read" in place.rejected(written(files("views"), copied)).sentence


@pytest.mark.parametrize("kind", ["files", "topic"])
def test_a_renamed_input_is_read_on_with_the_windows(place: Place, written: Write, kind: str) -> None:
    more = ', renamed_from="events"'
    declared = (files(), files("views", more=more)) if kind == "files" else (topic(), topic("views", more=more))

    def come(name: str, *numbers: int, second: int = 1) -> None:
        if kind == "files":
            place.file(f"in/{name}.json", *numbers, second=second)
        else:
            place.topic("events", *numbers, second=second)

    come("a", 3, 4)
    place.run(written(declared[0], f"rows.{WINDOW}"), "run-1")
    renamed = written(declared[1], f"rows.{WINDOW}")
    for number, run in enumerate(("run-2", "run-3"), 5):  # the second one knows the new id
        come(run, number)
        place.run(renamed, run, config=PHYSICAL)
    come("z", 0, second=7200)
    place.run(renamed, "run-4", config=PHYSICAL)
    assert place.totals() == [18]


def test_a_renamed_input_keeps_its_watermark(place: Place, written: Write) -> None:
    place.topic("events", 3)
    place.topic("events", 0, second=7200)
    place.run(written(topic(), f"rows.{WINDOW}"), "run-1")
    assert place.totals() == [3]
    place.topic("events", 9, second=2)  # late by what was read under the former id
    place.topic("events", 0, second=14400)
    place.run(written(topic("views", more=', renamed_from="events"'), f"rows.{WINDOW}"), "run-2", config=PHYSICAL)
    assert place.totals() == [3, 0]


def test_an_input_with_the_time_of_the_system_is_renamed_with_it(place: Place, written: Write) -> None:
    def declared(name: str, more: str = "") -> tuple[str, str]:
        return (
            f'rows = app.input_stream("{name}", system="lake", schema="member bigint, n bigint", path="in/*.json", '
            f'format="json", timestamp=system_time("read_at"), slice="checkpoint"{more})',
            'rows.aggregate("member", total=sum_("n"), id="sums").send_to(app.output_stream("out", system="log"))',
        )

    place.file("in/a.json", 3, 4)
    place.run(written(*declared("events")), "run-1")
    place.file("in/b.json", 5)
    plan = place.run(written(*declared("views", ', renamed_from="events"')), "run-2")
    assert [Path(file["path"]).name for file in slice_of(plan, "views")["files"]] == ["b.json"]


def both(one: str, other: str, more: tuple[str, str] = ("", "")) -> tuple[str, ...]:
    return (
        files(one, "one/*.json", more=more[0]).replace("rows =", "one ="),
        files(other, "two/*.json", more=more[1]).replace("rows =", "two ="),
        f"one.merge(two).{WINDOW}",
    )


def test_two_renamed_inputs_each_take_over_their_own(place: Place, written: Write) -> None:
    place.file("one/a.json", 1)
    place.file("two/a.json", 10, 20)
    place.run(written(*both("a", "b")), "run-1")
    place.file("one/b.json", 2)
    plan = place.run(written(*both("c", "d", (', renamed_from="a"', ', renamed_from="b"'))), "run-2")
    read = {name: [Path(f["path"]).name for f in slice_of(plan, name)["files"]] for name in ("c", "d")}
    assert read == {"c": ["b.json"], "d": []}


def test_two_inputs_cannot_change_their_ids_with_each_other(place: Place, written: Write) -> None:
    place.file("one/a.json", 1)
    place.file("two/a.json", 10, 20)
    place.run(written(*both("a", "b")), "run-1")
    with pytest.raises(PlanErrors) as caught:
        place.plan(written(*both("b", "a", (', renamed_from="a"', ', renamed_from="b"'))), "run-2")
    assert [error.facts["stream"] for error in caught.value.errors] == ["a", "b"]


def test_no_two_inputs_go_on_from_one_position(place: Place, written: Write) -> None:
    place.file("in/a.json", 3)
    place.run(written(files(), f"rows.{WINDOW}"), "run-1")
    again = files("views", more=', renamed_from="events"').replace("rows =", "again =")
    error = place.rejected(written(files(), again, f"rows.merge(again).{WINDOW}"))
    assert error.sentence == (
        "Both the input 'events' and the input 'views' would be read on from where the input 'events' was read up to in "
        "version 1."
    )


def test_a_removed_input_is_given_up_by_dropped(place: Place, written: Write) -> None:
    second = files("more", "more/*.json").replace("rows =", "more =")
    place.file("in/a.json", 3)
    place.file("more/a.json", 4)
    place.run(written(files(), second, f"rows.merge(more).{WINDOW}"), "run-1")
    assert "the input 'more'" in place.rejected(written(files(), f"rows.{WINDOW}")).sentence
    less = written(files(), f"rows.{WINDOW}", options=', dropped=["more"]')
    place.run(less, "run-2")
    place.run(written(files(), f"rows.{WINDOW}"), "run-3")  # it is gone for good, and the word with it


def test_an_input_under_a_new_id_is_read_from_its_start_when_the_former_one_is_dropped(
    place: Place, written: Write
) -> None:
    place.file("in/a.json", 3, 4)
    place.run(written(files(), f"rows.{WINDOW}"), "run-1")
    place.file("in/z.json", 0, second=7200)
    place.run(written(files("views"), f"rows.{WINDOW}", options=', dropped=["events"]'), "run-2")
    assert place.totals() == [14]


def test_an_input_that_is_there_is_not_dropped(place: Place, written: Write) -> None:
    place.file("in/a.json", 3)
    application = written(files(), f"rows.{WINDOW}", options=', dropped=["events"]')
    error = place.rejected(application)
    assert error.sentence == (
        "The application 'changing' says dropped=['events'], and still has the input 'events', which is read on from "
        "where the last run stopped."
    )
    assert "Give it a new id, and it is read from its start" in (error.hint or "")


def test_an_input_of_which_nothing_was_read_goes_without_a_word(place: Place, written: Write) -> None:
    (place.lake / "in").mkdir(parents=True)
    place.run(written(files(), f"rows.{WINDOW}"), "run-1")
    assert place.plan(written(files("views"), f"rows.{WINDOW}"), "run-2").state is not None


def test_fresh_state_and_a_reset_know_no_former_input(place: Place, written: Write) -> None:
    place.file("in/a.json", 3)
    place.run(written(files(), f"rows.{WINDOW}"), "run-1")
    renamed = written(files("views"), f"rows.{WINDOW}")
    assert place.plan(renamed, "fresh", state_from="fresh").state is not None
    assert "'events'" in place.rejected(renamed, "from", state_from="run-1").sentence
    reset(place.here.log.filesystem, StateHistory("changing"), 0)
    assert place.plan(renamed, "run-3").state is not None


def test_a_run_with_a_state_of_its_own_takes_a_renamed_input_over(place: Place, written: Write) -> None:
    place.file("in/a.json", 3)
    place.run(written(files(), f"rows.{WINDOW}"), "run-1")
    place.file("in/b.json", 4)
    plan = place.plan(
        written(files("views", more=', renamed_from="events"'), f"rows.{WINDOW}"), "from", state_from="run-1"
    )
    assert [Path(file["path"]).name for file in slice_of(plan, "views")["files"]] == ["b.json"]


MOVED = [
    ("another folder", files(path="out/*.json"), "place 'in' in the system 'lake' of kind files, now 'out' in"),
    ("a folder above", files(path="*/*.json"), "now the root in the system 'lake'"),
    ("another system", topic(), "now 'events' in the system 'log' of kind log"),
]


@pytest.mark.parametrize(("line", "said"), [case[1:] for case in MOVED], ids=[case[0] for case in MOVED])
def test_rejects_an_input_that_lies_elsewhere(place: Place, written: Write, line: str, said: str) -> None:
    place.file("in/a.json", 3)
    place.file("out/a.json", 3)
    place.topic("events", 3)
    place.run(written(files(), f"rows.{WINDOW}"), "run-1")
    error = place.rejected(written(line, f"rows.{WINDOW}"))
    assert error.sentence.startswith(
        "The input 'events' was read otherwise up to version 1 than the application 'changing' reads it: "
    )
    assert said in error.sentence
    assert "Change it back; or give it a new id and set dropped=['events'], and it is read from its start" in (
        error.hint or ""
    )
    assert "airflow-samza state reset changing" in (error.hint or "")


def test_rejects_a_path_that_configuration_leads_elsewhere(place: Place, written: Write) -> None:
    application = written(files(path="{config[folder]}/*.json"), f"rows.{WINDOW}")
    place.file("in/a.json", 3)
    place.file("out/a.json", 3)
    place.run(application, "run-1", config={"folder": "in"})
    assert "now 'out' in" in place.rejected(application, config={"folder": "out"}).sentence


def test_rejects_a_topic_under_another_name(place: Place, written: Write) -> None:
    place.topic("events", 3)
    place.topic("others", 3)
    place.run(written(topic(), f"rows.{WINDOW}"), "run-1")
    error = place.rejected(written(topic(), f"rows.{WINDOW}"), config={"streams.events.samza.physical.name": "others"})
    assert "place 'events' in the system 'log' of kind log, now 'others' in the system 'log'" in error.sentence


def test_the_same_place_may_have_another_name(place: Place, written: Write) -> None:
    place.file("in/a.json", 3)
    place.run(written(files(), f"rows.{WINDOW}"), "run-1")
    place.file("in/b.json", 4)
    place.bindings["ocean"] = place.bindings["lake"]
    plan = place.plan(written(files(system="ocean", path="in/**"), f"rows.{WINDOW}"), "run-2")
    assert [Path(file["path"]).name for file in slice_of(plan, "events")["files"]] == ["b.json"]


def test_the_same_topic_may_be_in_another_system(place: Place, written: Write) -> None:
    place.topic("events", 3)
    place.run(written(topic(), f"rows.{WINDOW}"), "run-1")
    place.topic("events", 4)
    place.bindings["stream"] = SystemBinding("log", {"root": str(place.here.root)})
    plan = place.plan(written(topic().replace('system="log"', 'system="stream"'), f"rows.{WINDOW}"), "run-2")
    assert slice_of(plan, "events")["offsets"] == [[1, 2]]


def test_a_root_may_move(place: Place, written: Write) -> None:
    place.file("in/a.json", 3)
    place.run(written(files(), f"rows.{WINDOW}"), "run-1")
    place.lake = place.lake.rename(place.lake.with_name("sea"))
    place.bindings["lake"] = SystemBinding("files", {"root": str(place.lake)})
    place.file("in/b.json", 4)
    plan = place.plan(written(files(), f"rows.{WINDOW}"), "run-2")
    assert [Path(file["path"]).name for file in slice_of(plan, "events")["files"]] == ["b.json"]


OTHER = 'other = app.input_stream("other", system="log", schema=VIEW, timestamp="at", max_delay=0, slice="checkpoint")'
ARRIVALS = 'slice="checkpoint"'

READ_OTHERWISE = [
    ("all of it", files(), "", "read what came since the run before, now all of it in every run"),
    ("the interval", files(), 'slice="timestamp", bounded=False', "now the messages of the data interval"),
    ("all of a topic", topic(), "", "now all of it in every run"),
    ("sections", topic(), "shared", "now the sections of its writers"),
]


@pytest.mark.parametrize(
    ("line", "now", "said"), [case[1:] for case in READ_OTHERWISE], ids=[case[0] for case in READ_OTHERWISE]
)
def test_rejects_an_input_that_is_read_otherwise(place: Place, written: Write, line: str, now: str, said: str) -> None:
    place.file("in/a.json", 3)
    place.topic("events", 3)
    place.topic("other", 1)
    body = (OTHER, f"rows.merge(other).{WINDOW}")
    place.run(written(line, *body), "run-1", interval=DAY)
    if now == "shared":
        changed = line.replace("input_stream", "shared_stream").replace(f", {ARRIVALS}", "")
    else:
        changed = line.replace(ARRIVALS, now).replace(", )", ")")
    assert said in place.rejected(written(changed, *body), interval=NEXT_DAY).sentence


@pytest.mark.parametrize("before", ["", 'slice="timestamp", bounded=False'])
def test_rejects_files_of_which_there_is_no_record(place: Place, written: Write, before: str) -> None:
    place.file("in/a.json", 3)
    place.topic("other", 1)
    body = (OTHER, f"rows.merge(other).{WINDOW}")
    place.run(written(files().replace(ARRIVALS, before).replace(", )", ")"), *body), "run-1", interval=DAY)
    error = place.rejected(written(files(), *body), interval=NEXT_DAY)
    assert "now what came since the run before" in error.sentence


def test_a_bounded_topic_is_read_on_when_it_is_not_bounded_any_more(place: Place, written: Write) -> None:
    place.topic("events", 3)
    place.topic("other", 1)
    body = (OTHER, f"rows.merge(other).{WINDOW}")
    place.run(written(topic().replace(f", {ARRIVALS}", ""), *body), "run-1")
    place.topic("events", 4)
    assert slice_of(place.plan(written(topic(), *body), "run-2"), "events")["offsets"] == [[1, 2]]


def test_a_bounded_input_may_go_and_move(place: Place, written: Write) -> None:
    bounded = files().replace(f", {ARRIVALS}", "")
    place.file("in/a.json", 3)
    place.file("out/a.json", 3)
    place.topic("other", 1)
    body = (OTHER, f"rows.merge(other).{WINDOW}")
    place.run(written(bounded, *body), "run-1")
    place.run(written(bounded.replace("in/", "out/"), *body), "run-2")
    place.run(written(OTHER, f"other.{WINDOW}"), "run-3")


def test_a_version_of_before_inputs_were_compared_is_read_by_what_it_holds(place: Place, written: Write) -> None:
    place.file("in/a.json", 3)
    place.run(written(files(), f"rows.{WINDOW}"), "run-1")
    history, version = StateHistory("changing"), place.version()
    former = dataclasses.replace(version, meanings={k: m for k, m in version.meanings.items() if ":" not in k})
    assert len(former.meanings) == len(version.meanings) - 1
    (place.here.root / history.version(1)).unlink()
    (place.here.root / history.version(1)).write_bytes(encode(former))
    assert "how far the input 'events' was read" in place.rejected(written(files("views"), f"rows.{WINDOW}")).sentence


def test_a_plan_shows_that_an_input_was_renamed(place: Place, written: Write) -> None:
    from airflow_samza.planner.difference import difference

    place.file("in/a.json", 3)
    before = place.run(written(files(), f"rows.{WINDOW}"), "run-1").plan
    after = place.plan(written(files("views", more=', renamed_from="events"'), f"rows.{WINDOW}"), "run-2").plan
    assert "Input stream 'events' was renamed to 'views'." in difference(before, after)
    assert not [text for text in difference(before, after) if "is gone" in text or "is new" in text]


def test_a_renamed_input_keeps_the_count_on_which_state_depends(place: Place, written: Write) -> None:
    def copied(name: str, more: str = "") -> str:
        return written(topic(name, more), f'rows.partition_by("member", id="by").{WINDOW}')

    place.topic("events", 3)
    place.run(copied("events"), "run-1")
    rows = pa.table({"member": pa.array([1]), "n": pa.array([1]), "at": pa.array([0], pa.timestamp("us", "UTC"))})
    place.here.log.append("wide", rows, key=["member"], partitions=3)
    error = place.rejected(
        copied("views", ', renamed_from="events"'), config={"streams.views.samza.physical.name": "wide"}
    )
    assert "The stream 'views' has 3 partitions" in error.sentence


CLICKS = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])
PRODUCING = "tests.support.carrying_apps:producing"
SHARED = {"streams.clicks.samza.physical.name": "shared-clicks"}


def shared(name: str, more: str = "") -> tuple[str, str]:
    return (
        f'rows = app.shared_stream("{name}", system="log", schema="member bigint, page string, n bigint"{more})',
        'rows.send_to(app.output_stream("out", system="log"))',
    )


def produce(place: Place, run: str, *numbers: int) -> RunPlan:
    rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in numbers]
    place.here.log.append("clicks", pa.Table.from_pylist(rows, CLICKS), key=["member"], partitions=2)
    return place.run(PRODUCING, run)


def test_a_renamed_shared_stream_is_read_from_the_sections_that_are_new(place: Place, written: Write) -> None:
    produce(place, "monday", 0, 1, 2)
    place.run(written(*shared("shared-clicks")), "run-1")
    assert (
        "how far the input 'shared-clicks' was read"
        in place.rejected(written(*shared("clicks")), config=SHARED).sentence
    )
    produce(place, "tuesday", 3, 4)
    renamed = written(*shared("clicks", ', renamed_from="shared-clicks"'))
    place.run(renamed, "run-2", config=SHARED)
    place.run(renamed, "run-3", config=SHARED)
    assert sorted(row["n"] for row in place.here.rows("out")) == [0, 1, 2, 3, 4]


def test_a_section_that_was_written_anew_is_noticed_under_the_new_id(place: Place, written: Write) -> None:
    plan = produce(place, "monday", 0, 1, 2)
    place.run(written(*shared("shared-clicks")), "run-1")
    renamed = written(*shared("clicks", ', renamed_from="shared-clicks"'))
    place.run(renamed, "run-2", config=SHARED)
    place.here.stages(plan, "by-member", generation=2)
    with pytest.raises(StateError, match="has rewritten its section") as caught:
        place.plan(renamed, "run-3", config=SHARED)
    assert caught.value.facts["reader"] == "run-1"
