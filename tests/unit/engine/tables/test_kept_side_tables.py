"""Tables of side inputs that a host keeps from run to run.

Those of processors, and those to which another side input comes. No Spark.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from airflow_samza.engine.tables import followed_tables, warm_tables
from airflow_samza.systems.system import StreamSpec
from tests.support.runs_here import Here
from tests.support.side_input_apps import PROFILES
from tests.unit.engine.tables.test_followed_tables import FOLLOWING, PROCESSED, running, view
from tests.unit.prepare.test_side_inputs import many, profiles, read_of, scored, send, stored, views

APPS = "tests.support.side_input_apps:"
KEPT, UNKEPT, CONFIGURED = f"{APPS}processed_views", f"{APPS}unkept_views", f"{APPS}configured_views"


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


@pytest.fixture(autouse=True)
def _cold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_tables, "_WARM", warm_tables.WarmTables())  # nothing of another test


# -- a processor -------------------------------------------------------------------------------------------------------


def times(here: Here) -> list[tuple[int, int | None]]:
    return sorted((row["member_id"], row["times"]) for row in here.rows("scored"))


def test_the_next_run_goes_on_from_what_a_processor_has_made(here: Here) -> None:
    many(here, "gold")
    views(here, 1)
    assert read_of(here, here.whole(KEPT, "run-1")) == 100
    profiles(here, m1="silver")
    assert read_of(here, here.whole(KEPT, "run-2")) == 1
    assert times(here) == [(1, 1), (1, 2)]


@pytest.mark.parametrize("application", [KEPT, UNKEPT])
def test_what_is_kept_is_what_is_made_anew(here: Here, application: str) -> None:
    many(here, "gold")
    many(here, "silver")
    views(here, 1, 2)
    found = []
    for number in (1, 2, 3):
        here.whole(application, f"run-{number}")
        found.append(times(here)[-2:])
    assert found == [[(1, 2), (2, 2)], [(2, 2), (2, 2)], [(2, 2), (2, 2)]]


def test_a_table_of_a_processor_that_nobody_can_compare_is_made_anew_by_each_run(here: Here) -> None:
    many(here, "gold")
    views(here, 1)
    assert [read_of(here, here.whole(UNKEPT, f"run-{number}")) for number in (1, 2)] == [100, 100]
    assert not stored(here, "OFFSETS-*")


def test_a_table_of_a_processor_is_made_anew_with_another_configuration(here: Here) -> None:
    many(here, "gold")
    views(here, 1)
    here.whole(KEPT, "run-1")
    assert read_of(here, here.whole(KEPT, "run-2", config={"my.least": "3"})) == 100
    assert read_of(here, here.whole(KEPT, "run-3", config={"my.least": "3"})) == 0
    assert read_of(here, here.whole(KEPT, "run-4")) == 0


@pytest.fixture
def module(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("code")
    monkeypatch.syspath_prepend(str(folder))
    yield folder / "samza_seen_app.py"
    sys.modules.pop("samza_seen_app", None)


def written(module: Path, by: int, changes: str = "profile-changes") -> str:
    """An application whose processor counts by some number, as a process that starts now would load it."""
    module.write_text(
        "from airflow_samza import stream_application\n"
        "from tests.support.side_input_apps import PROFILES, SEEN, VIEWS\n\n"
        "class Seen:\n"
        "    def __init__(self, config, metrics): pass\n"
        "    def process(self, message, store):\n"
        "        former = store.get(message.key)\n"
        f"        yield message.key, {{'tier': 'x', 'times': (former.times if former else 0) + {by}}}\n\n"
        "@stream_application('changing', default_system='log')\n"
        "def changing(app):\n"
        "    views = app.input_stream('views', schema=VIEWS, key='member_id')\n"
        f"    changes = app.side_input('{changes}', schema=PROFILES, key='member_id')\n"
        "    table = app.table('profiles', key='member_id', side_inputs=[changes], schema=SEEN, processor=Seen)\n"
        "    views.join(table, how='left', id='with-profile').send_to(app.output_stream('scored', key='member_id'))\n"
    )
    from airflow_samza.engine import stage_task

    sys.modules.pop("samza_seen_app", None)
    importlib.invalidate_caches()
    stage_task.load_program.cache_clear()
    return "samza_seen_app:changing"


def test_a_table_is_made_anew_by_other_code_of_its_processor(here: Here, module: Path) -> None:
    with mock.patch.object(sys, "dont_write_bytecode", True):
        many(here, "gold")
        views(here, 1)
        assert read_of(here, here.whole(written(module, 1), "run-1")) == 100
        assert read_of(here, here.whole(written(module, 1), "run-2")) == 0
        assert read_of(here, here.whole(written(module, 10), "run-3")) == 100
    assert times(here) == [(1, 1), (1, 1), (1, 10)]


def test_a_table_is_made_anew_when_its_side_input_has_another_id(here: Here, module: Path) -> None:
    """Nothing of a side input is state: its rows are counted once under any id."""
    renamed = {"streams.changes.samza.physical.name": "profile-changes"}
    with mock.patch.object(sys, "dont_write_bytecode", True):
        many(here, "gold")
        views(here, 1)
        here.whole(written(module, 1), "run-1")
        assert read_of(here, here.whole(written(module, 1, "changes"), "run-2", config=renamed), "changes") == 100
    assert times(here) == [(1, 1), (1, 1)]


@pytest.mark.extended
def test_tables_beyond_what_a_worker_keeps_are_taken_from_the_host(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_tables, "_WARM", warm_tables.WarmTables(0))  # of two tasks one is forgotten in each epoch
    here.log.create([StreamSpec("views", 2, "member_id bigint, page string")])
    many(here, "gold")
    with running(here, PROCESSED) as (plan, _):
        for _ in range(3):
            assert [view(here, member) for member in (1, 2, 3, 4)] == ["gold"] * 4
    assert read_of(here, plan) == 0


def test_another_process_that_takes_a_stage_over_does_not_begin_anew(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_tables, "FEW_MESSAGES", 1000)
    here.log.create([StreamSpec("views", 2, "member_id bigint, page string")])
    many(here, "gold")
    with running(here, PROCESSED) as (plan, _):
        assert [view(here, member) for member in (1, 2, 3, 4)] == ["gold"] * 4  # so that both tasks have had an epoch
        monkeypatch.setattr(warm_tables, "_WARM", warm_tables.WarmTables())  # as a worker that has just started
        profiles(here, m1="silver")
        assert view(here, 1) == "silver"
    assert read_of(here, plan) <= 1


# -- one more side input -----------------------------------------------------------------------------------------------


def configured(*streams: str) -> dict[str, str]:
    return {"stores.profiles.side.inputs": ",".join(f"log.{stream}" for stream in streams)}


def more(here: Here, topic: str, tier: str, first: int) -> None:
    send(here, topic, PROFILES, [{"member_id": n, "tier": tier} for n in range(first, first + 100)])


def test_of_one_more_side_input_of_a_table_only_that_is_read(here: Here) -> None:
    more(here, "first", "gold", 0)
    more(here, "second", "silver", 100)
    more(here, "third", "bronze", 200)
    views(here, 1, 101, 201)
    one = here.whole(CONFIGURED, "run-1", config=configured("first"))
    assert read_of(here, one, "first") == 100
    two = here.whole(CONFIGURED, "run-2", config=configured("first", "second"))
    assert (read_of(here, two, "first"), read_of(here, two, "second")) == (0, 100)
    three = here.whole(CONFIGURED, "run-3", config=configured("third", "second", "first"))
    assert [read_of(here, three, stream) for stream in ("first", "second", "third")] == [0, 0, 100]
    assert scored(here)[-3:] == [(201, "bronze"), (201, None), (201, None)]
    assert scored(here).count((1, "gold")) == 3
    assert scored(here).count((101, "silver")) == 2


def test_a_side_input_that_a_table_does_not_have_any_more_takes_its_rows_along(here: Here) -> None:
    more(here, "first", "gold", 0)
    more(here, "second", "silver", 100)
    views(here, 1, 101)
    here.whole(CONFIGURED, "run-1", config=configured("first", "second"))
    fewer = here.whole(CONFIGURED, "run-2", config=configured("first"))
    assert read_of(here, fewer, "first") == 100
    assert scored(here) == [(1, "gold"), (1, "gold"), (101, "silver"), (101, None)]


def test_a_side_input_of_another_topic_is_another_one(here: Here) -> None:
    more(here, "first", "gold", 0)
    more(here, "second", "silver", 0)
    views(here, 1)
    here.whole(CONFIGURED, "run-1", config=configured("first"))
    moved = {**configured("first"), "streams.first.samza.physical.name": "second"}
    other = here.whole(CONFIGURED, "run-2", config=moved)
    assert read_of(here, other, "first") == 100
    assert scored(here) == [(1, "gold"), (1, "silver")]


# -- what is written ---------------------------------------------------------------------------------------------------


def test_a_table_is_not_written_again_for_every_message(here: Here) -> None:
    here.log.create([StreamSpec("views", 2, "member_id bigint, page string")])
    many(here, "gold")
    with running(here, FOLLOWING):
        for number in range(5):
            profiles(here, m1=f"silver-{number}")
            assert view(here, 1) == f"silver-{number}"
    assert len(stored(here, "*/store.json")) == 2  # one of each task: an eighth of it must be new
