"""Folders of processes among a host's temporary files: private, gone with their process, swept when that was killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_samza.launch import own_scratch as module
from airflow_samza.launch.java.local_java import LOCAL_DIRS, SOCKET_FOLDER, local_doors, own_folders
from airflow_samza.launch.own_scratch import own_local_dirs, own_scratch, socket_folder, sweep_left_behind
from airflow_samza.launch.spark_settings import UNIX_SOCKETS
from airflow_samza.private_folder import scratch_folder
from airflow_samza.runs.records import liveness

MAKES = """
import sys, time
from pathlib import Path
from airflow_samza.launch.own_scratch import own_local_dirs, own_scratch
for name in ("t", "local", "s"):
    (Path(own_scratch(name)) / "rows").write_text("secret")
(Path(own_local_dirs(sys.argv[1])) / "rows").write_text("secret")
print(own_scratch(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder for temporary files with a short path, as sockets need it."""
    tmp_path_factory.getbasetemp()  # made where it is always
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as folder:
        at(monkeypatch, folder)
        yield Path(folder)


def at(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.setattr(tempfile, "tempdir", folder)
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setattr(module, "_folders", {})


@contextmanager
def another_process(disk: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    process = subprocess.Popen(
        [sys.executable, "-c", MAKES, str(disk)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_the_folder_of_a_process_is_private_and_names_its_owner(short: Path) -> None:
    inner = Path(own_scratch("t"))
    assert own_scratch("t") == str(inner)
    for folder in (inner, inner.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    owner = json.loads((inner.parent / "owner.json").read_text())
    assert (owner["pid"], owner["host"]) == (os.getpid(), socket.gethostname())
    assert inner.parent.parent == Path(scratch_folder("p"))


def test_it_goes_with_its_process_and_is_swept_when_that_was_killed(short: Path, tmp_path: Path) -> None:
    with another_process(tmp_path) as (process, folder):
        assert (folder / "t/rows").exists()
        process.communicate("")
        assert process.returncode == 0
        assert not folder.exists()
        assert not list(tmp_path.rglob("rows"))
    with another_process(tmp_path) as (process, folder):
        assert sweep_left_behind() == []  # it lives
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        (elsewhere,) = (path.parent for path in tmp_path.rglob("rows"))
        assert (folder / "local/rows").exists()
        assert sweep_left_behind(dry=True) == [str(folder), str(elsewhere)]
        assert folder.exists()
        assert sweep_left_behind() == [str(folder), str(elsewhere)]
        assert not folder.exists()
        assert not elsewhere.exists()
        assert sweep_left_behind() == []


def test_what_a_process_still_uses_stays_though_its_owner_is_dead(short: Path, tmp_path: Path) -> None:
    with another_process(tmp_path) as (process, folder):
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        java = subprocess.Popen(
            [sys.executable, "-c", "input()", f"-Djava.io.tmpdir={folder}/t"], stdin=subprocess.PIPE
        )
        with java:
            assert sweep_left_behind() == []
            java.kill()
        assert str(folder) in sweep_left_behind()


@pytest.mark.parametrize(("change", "swept"), [("", True), ("other", False), ("boot", True), ("namespace", False)])
def test_owners_of_an_earlier_boot_are_dead_and_those_of_other_hosts_and_containers_are_not_known(
    short: Path, change: str, swept: bool
) -> None:
    host, boot, namespace = liveness.place().split("/", 2)
    if change == "other":
        host = "other"
    elif change == "boot":
        boot = "earlier"
    elif change == "namespace":
        namespace = "pid:[1]"
    folder = Path(scratch_folder("p", "dead"))
    owner = {"host": host, "place": f"{host}/{boot}/{namespace}", "pid": 2**22 + 1, "started": 1.0}
    (folder / "owner.json").write_text(json.dumps(owner))
    assert (str(folder) in sweep_left_behind()) is swept


def test_a_folder_without_an_owner_is_left_for_a_minute(short: Path) -> None:
    folder = scratch_folder("p", "new")
    assert sweep_left_behind() == []
    os.utime(folder, (0, 0))
    assert sweep_left_behind() == [folder]


@pytest.mark.parametrize("length", [10, 26, 30, 36, 37, 45, 59, 60, 61, 90])
def test_unix_sockets_lie_in_a_private_folder_or_there_are_none(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as top:
        folder = f"{top}/{'x' * max(0, length - len(top) - 1)}".rstrip("/")
        os.makedirs(folder, exist_ok=True)
        at(monkeypatch, folder)
        found = local_doors({})
        if SOCKET_FOLDER in found:
            place = Path(found[SOCKET_FOLDER])
            assert len(str(place)) <= module.LONGEST_SOCKET_FOLDER
            assert stat.S_IMODE(place.stat().st_mode) == 0o700
            assert UNIX_SOCKETS not in found
        else:
            assert socket_folder() is None
            assert found[UNIX_SOCKETS] == "false"
        assert (SOCKET_FOLDER in found) is (length <= 36)


def test_java_writes_below_the_folder_of_its_starter(
    short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    with own_folders({}) as settings:
        assert settings == {LOCAL_DIRS: own_scratch("local")}
        assert os.environ["SPARK_SUBMIT_OPTS"] == f"-Djava.io.tmpdir={own_scratch('t')}"
        assert tempfile.gettempdir() == own_scratch("t")
        assert scratch_folder() == str(short / f"airflow-samza-{os.geteuid()}")
    assert "SPARK_SUBMIT_OPTS" not in os.environ
    assert tempfile.gettempdir() == str(short)
    named = f"{tmp_path}/a, {tmp_path}/b"
    with own_folders({LOCAL_DIRS: named, "spark.driver.extraJavaOptions": "-Djava.io.tmpdir=/mine"}) as settings:
        places = settings[LOCAL_DIRS].split(",")
        assert [Path(place).is_relative_to(tmp_path / name) for place, name in zip(places, "ab", strict=True)]
        assert all(stat.S_IMODE(os.stat(place).st_mode) == 0o700 for place in places)
        assert "SPARK_SUBMIT_OPTS" not in os.environ
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/c")
    with own_folders({LOCAL_DIRS: named}) as settings:
        assert settings == {}
        assert os.environ["SPARK_LOCAL_DIRS"] == own_local_dirs(f"{tmp_path}/c")
    assert os.environ["SPARK_LOCAL_DIRS"] == f"{tmp_path}/c"
