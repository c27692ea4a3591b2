"""``airflow-samza warm``: what is listed, and what ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_samza.cli.app import app
from airflow_samza.launch.warm import places, taking
from airflow_samza.launch.warm.places import WarmPlace, new_place
from airflow_samza.launch.warm.settings import VARIABLE
from airflow_samza.private_folder import private_folder


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Warm runners of this host lie below a folder of the test's own, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        monkeypatch.setattr(places, "scratch_folder", lambda name: private_folder(os.path.join(folder, name)))
        yield


def ask(*words: str) -> str:
    done = CliRunner().invoke(app, ["warm", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def started(key: str) -> WarmPlace:
    place = new_place(key)
    place.describe({"root": "/data/samza", "tenant": "samza_default", "master": "local[2]"})
    return place


def test_a_list_says_why_there_are_fewer_than_one_expects(monkeypatch: pytest.MonkeyPatch) -> None:
    started("0123").remove("it was idle for 600 s; 4 runs")
    places.note_end(places.NONE_STARTED, "of the 2048 MiB of this host 100 MiB are free")
    switched_off, last = ask("list").splitlines()[1:]
    assert switched_off == "AIRFLOW__SAMZA__WARM_RUNNERS switches them off in this shell."
    assert last.endswith(" none was started: of the 2048 MiB of this host 100 MiB are free")
    monkeypatch.delenv(VARIABLE)
    assert ask("list").splitlines()[1:] == [last]


def test_a_host_without_any_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    assert ask("list") == ask("end") == "There are no warm runners of this user on this host.\n"


def test_one_that_does_not_answer_is_listed_with_what_it_serves() -> None:
    place = started("0123")
    line = ask("list").splitlines()[-1].split()
    assert line[0] == place.name
    assert " ".join(line[1:]) == f"does not answer {os.getpid()} local[2] /data/samza samza_default"


def test_programs_get_an_object_for_each_runner() -> None:
    assert ask("list", "--json") == ""
    place = started("0123")
    found = json.loads(ask("list", "--json"))
    known = {"runner": place.name, "state": None, "pid": os.getpid(), "master": "local[2]", "root": "/data/samza"}
    assert found.items() >= known.items()


def test_the_folder_of_one_that_has_died_is_deleted() -> None:
    place = started("0123")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    about = Path(place.folder) / "about.json"
    about.write_text(about.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {dead.pid}'))
    assert ask("list").startswith(f"Deleted the folder of {place.name}, whose process was gone.\n")
    assert not os.path.exists(place.folder)


def test_those_that_are_named_end_and_one_that_serves_a_run_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    idle, busy = started("idle"), started("busy")
    asked: list[tuple[str, bool]] = []

    def end(place: WarmPlace, *, now: bool = False) -> bool:
        asked.append((place.name, now))
        return now or place == idle

    monkeypatch.setattr(taking, "end_warm", end)
    assert ask("end", idle.name) == f"{idle.name} ends.\n"
    assert f"{busy.name} stays: it serves a run" in ask("end")
    assert ask("end", busy.name, "--now") == f"{busy.name} ends.\n"
    assert asked[0] == (idle.name, False)
    assert asked[-1] == (busy.name, True)


def test_rejects_a_name_that_none_has() -> None:
    place = started("0123")
    done: Any = CliRunner().invoke(app, ["warm", "end", "4567"])
    assert done.exit_code != 0
    assert (
        f"There is no warm runner '4567' of this user on this host.\nHint: The warm runners are {place.name}."
        in done.output.replace("  ", "")
    )
