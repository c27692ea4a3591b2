"""The contract of inputs that continue, by kind of system: up to where one was read is state, under whichever id."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_samza.systems.system import SystemBinding
from tests.support import delta_lake, iceberg_lake
from tests.support.changing_modules import ChangingModules
from tests.unit.engine.test_renamed_inputs import HEAD, PHYSICAL, WINDOW, Place

COLUMNS = pa.schema([("member", pa.int64()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
UPCOMING = {"streams.events.samza.offset.default": "upcoming"}


class Followed(Place):
    """A place with an input of one kind that is followed, and an application that changes."""

    def __init__(self, folder: Path, kind: str, modules: ChangingModules) -> None:
        super().__init__(folder)
        self.kind = kind.partition(" ")[0]
        self.changes = kind.endswith("changes")
        self.folder = folder / self.kind
        self.modules = modules
        self.bindings["tables"] = SystemBinding(self.kind, {"root": str(self.folder)})
        self._numbers = itertools.count()
        self._made = False

    def make(self) -> None:
        """Make the input, with nothing in it."""
        if self.kind == "log":
            self.here.log.append("events", COLUMNS.empty_table(), key=["member"], partitions=1)
        elif self.kind == "files":
            (self.lake / "in").mkdir(parents=True)
        elif self.kind == "iceberg":
            iceberg_lake.table_of(self.folder, COLUMNS, name="web.events")
        else:
            delta_lake.table_of(self.folder, COLUMNS, name="web.events")
        self._made = True

    def come(self, *numbers: int, second: int = 1) -> None:
        """Have rows come."""
        if not self._made:
            self.make()
        at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=second)
        rows = [{"member": 1, "n": number, "at": at} for number in numbers]
        if self.kind == "log":
            self.topic("events", *numbers, second=second)
        elif self.kind == "files":
            self.file(f"in/{next(self._numbers)}.json", *numbers, second=second)
        elif self.kind == "iceberg":
            with iceberg_lake.catalog_at(self.folder) as catalog:
                iceberg_lake.append(catalog.load_table("web.events"), rows)
        else:
            delta_lake.append(DeltaTable(str(self.folder / "web/events")), rows, COLUMNS)

    def app(self, name: str = "events", more: str = "", options: str = "") -> str:
        """Return the application that sums what comes by the hour; its input has a name."""
        said = {
            "log": 'system="log", schema=VIEW',
            "files": 'system="lake", schema=VIEW, path="in/*.json", format="json"',
        }.get(self.kind, f'system="tables", table="web.events"{", changes=True" if self.changes else ""}')
        rows = f'rows = app.input_stream("{name}", {said}, timestamp="at", max_delay=0, slice="checkpoint"{more})'
        lines = [rows, f"rows.{WINDOW}"]
        self.modules.write("followed_app", HEAD.format(options=options) + "".join(f"    {line}\n" for line in lines))
        return "followed_app:app"


@pytest.fixture(params=["log", "files", "iceberg", "delta", "iceberg changes", "delta changes"])
def followed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Followed:
    return Followed(tmp_path, request.param, ChangingModules(tmp_path, monkeypatch))


def test_a_followed_input_under_another_id_is_rejected_where_something_was_read(followed: Followed) -> None:
    followed.come(3, 4)
    followed.run(followed.app(), "run-1")
    error = followed.rejected(followed.app("views"), config=PHYSICAL)
    assert "Version 1 holds how far the input 'events' was read" in error.sentence
    assert "set renamed_from='events' on 'views', which lies where it lay" in (error.hint or "")


def test_a_followed_input_under_another_id_is_read_on_by_renamed_from(followed: Followed) -> None:
    followed.come(3, 4)
    followed.run(followed.app(), "run-1")
    for number, run in enumerate(("run-2", "run-3"), 5):
        followed.come(number)
        followed.run(followed.app("views", ', renamed_from="events"'), run, config=PHYSICAL)
    followed.come(0, second=7200)
    followed.run(followed.app("views", ', renamed_from="events"'), "run-4", config=PHYSICAL)
    assert followed.totals() == [18]


def test_a_followed_input_under_another_id_is_read_from_its_start_where_the_former_is_dropped(
    followed: Followed,
) -> None:
    followed.come(3, 4)
    followed.run(followed.app(), "run-1")
    followed.run(followed.app("views", options=', dropped=["events"]'), "run-2", config=PHYSICAL)
    followed.come(0, second=7200)
    followed.run(followed.app("views"), "run-3", config=PHYSICAL)
    assert followed.totals() == [14]


def test_what_was_passed_over_counts_as_read(followed: Followed) -> None:
    followed.come(3, 4)
    followed.run(followed.app(), "run-1", config=UPCOMING)
    assert "how far the input 'events' was read" in followed.rejected(followed.app("views"), config=PHYSICAL).sentence


@pytest.mark.parametrize("followed", ["log", "files", "iceberg"], indirect=True)  # a table of Delta has a version 0
def test_a_followed_input_of_which_nothing_was_read_goes_without_a_word(followed: Followed) -> None:
    followed.make()
    followed.run(followed.app(), "run-1")
    assert followed.plan(followed.app("views"), "run-2", config=PHYSICAL).state is not None
