"""The keeper of a warm runner: whom it serves, how many at a time, and when it ends. Spark and forks are stand-ins."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_samza.errors import StageFailed
from airflow_samza.launch.java.container_limits import MemoryRoom
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.launch.warm import places, taking
from airflow_samza.launch.warm.messages import LEND, SERVE, STATE, receive, send
from airflow_samza.launch.warm.places import WarmPlace, new_place, sweep_orphans
from airflow_samza.launch.warm.settings import parse_warm_runners
from airflow_samza.launch.warm.taking import LentProcess, ask, end_warm, start_ahead, take_warm
from airflow_samza.private_folder import private_folder
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.spark.warm import keeper
from airflow_samza.spark.warm.forker import Forker
from airflow_samza.spark.warm.keeper import Keeper, proportional_megabytes
from demo.local_airflow import still_running

WAIT_SECONDS = 300.0

ROOMS: list[MemoryRoom] = []
"""The memory of the test's host."""

TIGHT = MemoryRoom("this host", 6 << 30, 1 << 30)


class Spark:
    """A Spark that does at once what it is asked for, and is as it is told to be."""

    def __init__(self) -> None:
        self.java = psutil.Process()
        self.calls: list[str] = []
        self.left = ""
        self.size = 100
        self.fails: Exception | None = None
        self.holds, self.comes_up = threading.Event(), threading.Event()
        self.holds.set()
        self.comes_up.set()

    def start(self) -> None:
        self.calls.append("start")
        self.comes_up.wait()
        if self.fails is not None:
            raise self.fails

    def lend(self) -> dict[str, Any]:
        self.calls.append("lend")
        return {"port": 1, "secret": "s", "java": 1}

    def clean(self) -> str:
        self.holds.wait()
        self.calls.append("clean")
        return self.left

    def shrink(self) -> None:
        self.calls.append("shrink")

    def is_healthy(self) -> bool:
        return True

    def megabytes(self) -> int:
        return self.size

    def stop(self) -> None:
        self.calls.append("stop")


class Forks(Forker):
    """A forker whose driver processes are sleeping ones, so that their end is the test's to choose."""

    def __init__(self) -> None:
        ours, self._theirs = socket.socketpair()
        super().__init__(0, ours)
        self.leases: list[socket.socket] = []
        self.orders: list[Any] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    def start_run(self, order: Any, lease: socket.socket) -> int:
        process = subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True)
        self.leases.append(lease.dup())
        self.orders.append(order)
        self.processes.append(process)
        threading.Thread(target=self._reap, args=(process,), daemon=True).start()
        return process.pid

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(OSError):
            send(self._theirs, {"exit": process.wait()})

    def end(self) -> None:
        self.channel.close()

    def close(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for one in (*self.leases, self.channel, self._theirs):
            one.close()


class Warm:
    """A keeper that serves in a thread."""

    def __init__(self, place: WarmPlace, root: Path, bounds: str, tenant: str = "") -> None:
        self.place, self.root = place, root
        self.forks, self.spark = Forks(), Spark()
        settings = {
            "bounds": dataclasses.asdict(parse_warm_runners(bounds)),
            "root": str(root),
            "tenant": tenant,
            "master": "local[2]",
        }
        Path(place.log).touch()
        self.keeper = Keeper(place, {**settings, "conf": {}, "archives": [], "class_archives": None}, self.forks)
        self.keeper._spark = self.spark  # type: ignore[assignment]
        self.lent: list[LentProcess] = []
        self._thread = threading.Thread(target=self.keeper.serve, daemon=True)

    def start(self) -> Warm:
        self._thread.start()
        until(lambda: os.path.exists(self.place.socket) or not self._thread.is_alive())
        return self

    def ask_for(self, run_id: str) -> LentProcess | None:
        settings = {"code": ["runs/app/code/0123.zip"], "output": os.devnull}
        lent = taking._ask_for(
            self.place,
            {"do": SERVE, "arguments": [str(self.root), "app", run_id, "k"], "settings": settings, "environment": {}},
        )
        self.lent += [lent] if lent is not None else []
        return lent

    def serve(self, run_id: str) -> LentProcess:
        """Serve a run that needs no Spark, or not yet."""
        lent = self.ask_for(run_id)
        assert lent is not None
        return lent

    def lend_to(self, run_id: str) -> LentProcess:
        """Serve a run that asks for Spark at once."""
        lent = self.serve(run_id)
        send(self.forks.leases[-1], {"do": LEND})
        return lent

    def ended(self) -> str:
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        return (Path(self.place.folder).parent / "ended.log").read_text()

    def stop(self) -> None:
        self.spark.holds.set()
        self.spark.comes_up.set()
        self.keeper._end_requested.set()
        self._thread.join(WAIT_SECONDS)
        self.forks.close()
        for lent in self.lent:
            lent.close()


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def host(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of this test's own for what a host keeps; short, as paths of sockets are."""
    monkeypatch.setattr(keeper, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(keeper, "kill_java", lambda java: None)  # it is this process
    monkeypatch.setattr(keeper, "proportional_megabytes", lambda pid: 1 if pid else 0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for module in (keeper, taking):
        monkeypatch.setattr(module, "memory_rooms", lambda: ROOMS)
    ROOMS.clear()
    with tempfile.TemporaryDirectory(prefix="w") as folder:
        monkeypatch.setattr(places, "scratch_folder", lambda name: private_folder(os.path.join(folder, name)))
        yield


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Callable[..., Warm]]:
    made: list[Warm] = []

    def start(bounds: str = "1", tenant: str = "", *, wanted: bool = False, **dials: Any) -> Warm:
        one = Warm(new_place("k"), tmp_path, bounds, tenant)
        if wanted:
            one.place.want_spark()
        vars(one.spark).update(dials)
        made.append(one)
        return one.start()

    yield start
    for one in made:
        one.stop()


def test_one_run_at_a_time_is_served_and_the_next_one_after_it(warm: Callable[..., Warm]) -> None:
    one = warm()
    first = one.lend_to("first")
    assert receive(one.forks.leases[0])["port"] == 1  # type: ignore[index]
    assert one.ask_for("second") is None
    first.kill()
    assert first.wait(WAIT_SECONDS) == -signal.SIGKILL
    until(lambda: ask(one.place, STATE)["state"] == "idle")  # type: ignore[index]
    assert one.lend_to("second").poll() is None
    until(lambda: one.spark.calls == ["start", "lend", "clean", "lend"])


@pytest.mark.extended
def test_of_many_that_ask_at_once_one_is_served(warm: Callable[..., Warm]) -> None:
    one = warm()
    found: list[LentProcess | None] = []
    asking = [threading.Thread(target=lambda: found.append(one.ask_for("run"))) for _ in range(20)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len([lent for lent in found if lent is not None]) == 1
    assert len(one.forks.processes) == 1


def test_a_run_waits_for_one_that_is_closed_and_only_has_to_end(warm: Callable[..., Warm]) -> None:
    one = warm()
    first = one.lend_to("first")
    closed = one.root / RunFolder("app", "first").closed
    closed.parent.mkdir(parents=True)
    closed.write_text("{}")
    found: list[LentProcess | None] = []
    asking = threading.Thread(target=lambda: found.append(one.ask_for("second")))
    asking.start()
    until(lambda: one.keeper._waiting)
    first.kill()
    asking.join(WAIT_SECONDS)
    assert found[0] is not None


def test_a_run_is_told_which_warm_runner_serves_it_and_as_which_run(warm: Callable[..., Warm]) -> None:
    one = warm()
    one.lend_to("first").kill()
    until(lambda: ask(one.place, STATE)["state"] == "idle")  # type: ignore[index]
    one.lend_to("second")
    assert [order["settings"]["warm"].split(", ")[:2] for order in one.forks.orders] == [
        [one.place.name, "run 1"],
        [one.place.name, "run 2"],
    ]


def test_runs_that_need_no_spark_are_served_one_after_the_other_before_it_is_up(warm: Callable[..., Warm]) -> None:
    one = warm(comes_up=threading.Event())
    for run_id in ("first", "second"):
        lent = one.lend_to(run_id)
        assert one.ask_for("another") is None
        lent.kill()
        lent.wait(WAIT_SECONDS)
        until(lambda: one.keeper._run is None)
    one.lend_to("third")
    one.spark.comes_up.set()
    until(lambda: one.spark.calls == ["start", "lend"])


def test_spark_is_not_started_for_runs_that_need_none(warm: Callable[..., Warm]) -> None:
    one = warm()
    for run_id in ("first", "second"):
        lent = one.serve(run_id)
        lent.kill()
        lent.wait(WAIT_SECONDS)
        until(lambda: ask(one.place, STATE)["state"] == "idle")  # type: ignore[index]
    assert one.spark.calls == []


def test_spark_is_started_for_the_first_run_that_asks_for_it_and_lent_once(warm: Callable[..., Warm]) -> None:
    one = warm()
    lent = one.lend_to("first")
    assert receive(one.forks.leases[0])["port"] == 1  # type: ignore[index]
    lent.kill()
    lent.wait(WAIT_SECONDS)
    until(lambda: one.spark.calls == ["start", "lend", "clean"])
    one.lend_to("second")
    assert receive(one.forks.leases[1])["port"] == 1  # type: ignore[index]
    assert one.spark.calls == ["start", "lend", "clean", "lend"]


def test_spark_comes_up_while_a_run_that_needs_it_is_on_its_way(warm: Callable[..., Warm]) -> None:
    one = warm()
    one.place.want_spark()
    until(lambda: one.spark.calls == ["start"])
    one.serve("first").kill()
    until(lambda: ask(one.place, STATE)["state"] == "idle")  # type: ignore[index]
    assert one.spark.calls == ["start"]


def test_a_run_may_ask_before_spark_is_up_and_hears_why_it_does_not_start(warm: Callable[..., Warm]) -> None:
    one = warm(fails=StageFailed("Spark does not start: no room", hint=""))
    lent = one.lend_to("first")
    assert receive(one.forks.leases[0])["error"]["sentence"] == "Spark does not start: no room"  # type: ignore[index]
    lent.kill()
    assert "start failed" in one.ended()


def test_a_run_hears_what_java_has_printed_before_it_ended_and_not_the_keepers_own_log(
    warm: Callable[..., Warm], monkeypatch: pytest.MonkeyPatch
) -> None:
    comes_up = threading.Event()
    one = warm(fails=RuntimeError("[JAVA_GATEWAY_EXITED] Java has exited"), comes_up=comes_up)
    log = Path(one.place.log)
    log.write_text("Error: Two collectors\n")
    monkeypatch.setattr(keeper.log, "error", lambda *_, **__: log.write_text("ERROR start failed"))
    lent = one.lend_to("first")
    comes_up.set()
    heard = receive(one.forks.leases[0])
    assert heard["error"]["sentence"] == "Spark does not start: Error: Two collectors"  # type: ignore[index]
    lent.kill()
    assert "start failed" in one.ended()


@pytest.mark.parametrize(
    ("bounds", "dials", "why"),
    [
        ("1,runs=1", {}, "it has served 1 runs"),
        ("1,memory=100", {}, "it takes 101 MiB"),
        ("1", {"left": "a run has left a streaming query"}, "a run has left a streaming query"),
    ],
)
def test_it_ends_after_a_run_when_a_bound_is_reached_or_something_was_left(
    warm: Callable[..., Warm], bounds: str, dials: dict[str, Any], why: str
) -> None:
    one = warm(bounds, wanted=True, **dials)
    with suppress(AssertionError):  # the bound of memory may have ended it before the run
        lent = one.lend_to("first")
        assert receive(one.forks.leases[0]) is not None  # a run that was lent nothing leaves nothing
        lent.kill()
    assert why in one.ended()
    assert not os.path.exists(one.place.folder)
    assert one.spark.calls[-1] == "stop"


@pytest.mark.parametrize("bound", ["idle", "age"])
def test_it_ends_by_itself_without_a_run(
    warm: Callable[..., Warm], bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = warm("1")
    one.keeper._bounds = dataclasses.replace(one.keeper._bounds, **{bound: 0.0})  # type: ignore[arg-type]
    assert ("idle" if bound == "idle" else "old") in one.ended()


def test_memory_counts_that_of_processes_which_are_there() -> None:
    assert proportional_megabytes(os.getpid()) > 10
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert proportional_megabytes(gone.pid) == proportional_megabytes(0) == 0


def test_none_is_kept_after_a_run_where_less_than_a_third_of_the_memory_is_free(warm: Callable[..., Warm]) -> None:
    one = warm(tenant="samza_default")
    lent = one.lend_to("first")
    ROOMS.append(TIGHT)
    lent.kill()
    assert "of the 6144 MiB of this host 1024 MiB are free, less than 2048; 1 runs" in one.ended()
    assert places.last_end(one.place.name).endswith("less than 2048; 1 runs")


def test_one_of_the_command_line_is_kept_there_and_leaves_when_processes_wait_for_memory_but_never_during_a_run(
    warm: Callable[..., Warm], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "MEMORY_SECONDS", 0.0)
    monkeypatch.setattr(keeper, "SHRINK_SECONDS", 0.0)
    one = warm()
    one.place.want_spark()
    until(lambda: "shrink" in one.spark.calls)
    lent = one.lend_to("first")
    ROOMS.append(dataclasses.replace(TIGHT, stalled=3.0))
    states = [(ask(one.place, STATE) or {}).get("state") for _ in range(5)]  # the keeper looks around after each
    assert states == ["busy"] * 5
    lent.kill()
    assert "processes of this host wait for memory (3 % of ten seconds); 1 runs" in one.ended()
    assert one.spark.calls[:4] == ["start", "shrink", "lend", "clean"]


def test_stages_of_a_run_that_begin_together_start_one_warm_runner(
    warm: Callable[..., Warm], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[_Ended] = []
    monkeypatch.setattr(taking, "_start_keeper", lambda *_: _Ended(started))
    monkeypatch.setattr(taking, "warm_key", lambda *_: "k")
    settings = RunnerSettings("/root", {}, warm=parse_warm_runners("3"))
    for run in ("first", "first", "second"):
        monkeypatch.setattr(taking, "LISTENS_SECONDS", 0.1)
        assert take_warm(settings, sys.executable, ["/root", "app", run, "k"], {}, {}) is None
    assert len(started) == 2


def test_one_that_is_started_while_a_run_is_planned_is_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[_Ended] = []
    monkeypatch.setattr(taking, "_start_keeper", lambda *_: _Ended(started))
    monkeypatch.setattr(taking, "warm_key", lambda settings, _: settings.master.replace("local", "k"))
    monkeypatch.setattr(taking, "LISTENS_SECONDS", 0.1)
    settings = RunnerSettings("/root", {}, master="local", warm=parse_warm_runners("2"))
    for _ in range(2):
        start_ahead(settings, sys.executable, "first", {})
    assert len(started) == 1
    take_warm(settings, sys.executable, ["/root", "app", "first", "a"], {}, {})
    assert len(started) == 1
    take_warm(settings, sys.executable, ["/root", "app", "first", "b"], {}, {})
    assert len(started) == 2, "another runner of the run needs a Java of its own"
    start_ahead(dataclasses.replace(settings, master="local[7]"), sys.executable, "other", {})
    assert len(started) == 2, "the host keeps as many as it may"


def test_none_is_started_ahead_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    ROOMS.append(TIGHT)
    started: list[_Ended] = []
    monkeypatch.setattr(taking, "_start_keeper", lambda *_: _Ended(started))
    start_ahead(RunnerSettings("/root", {}, warm=parse_warm_runners("1"), tenant="t"), sys.executable, "first", {})
    assert not started


def test_one_that_begins_to_listen_never_seems_to_end(
    warm: Callable[..., Warm], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    rename = os.rename

    def watched(source: str, target: str) -> None:
        seen.append(any(place.is_ending() for place in places.warm_places()))
        rename(source, target)

    monkeypatch.setattr(os, "rename", watched)
    place = warm().place
    until(place.about)
    assert (seen, place.is_ending()) == ([False, False], False)


def test_one_that_no_run_has_taken_leaves_early(warm: Callable[..., Warm], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "UNUSED_SECONDS", 0.0)
    assert "it was idle for 0 s; 0 runs" in warm().ended()


def test_none_is_started_where_it_would_not_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ROOMS.append(TIGHT)
    started: list[_Ended] = []
    monkeypatch.setattr(taking, "_start_keeper", lambda *_: _Ended(started))
    settings = RunnerSettings("/root", {}, warm=parse_warm_runners("1"), tenant="samza_default")
    assert take_warm(settings, sys.executable, ["/root", "app", "other", "k"], {}, {}) is None
    assert not started
    assert "none was started: of the 6144 MiB of this host 1024 MiB are free" in places.last_end()


@pytest.mark.extended
def test_a_spark_that_does_not_answer_is_ended_with_its_runner(
    warm: Callable[..., Warm], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(keeper, "kill_java", ended.append)
    monkeypatch.setattr(keeper, "CLEAN_SECONDS", 0.0)
    monkeypatch.setattr(keeper, "STOP_SECONDS", 0.0)
    one = warm()
    one.spark.holds.clear()
    lent = one.lend_to("first")
    assert receive(one.forks.leases[0]) is not None
    lent.kill()
    assert "Spark does not answer (clean)" in one.ended()
    assert ended[0] is one.spark.java


def test_one_that_serves_a_run_is_not_ended_unless_now(warm: Callable[..., Warm]) -> None:
    one = warm()
    lent = one.lend_to("first")
    assert not end_warm(one.place)
    assert end_warm(one.place, now=True)
    assert "it was asked to" in one.ended()
    assert lent.wait(WAIT_SECONDS) != 0
    assert one.forks.processes[0].wait(WAIT_SECONDS) != 0


@pytest.mark.extended
def test_what_a_driver_process_has_started_ends_with_it(warm: Callable[..., Warm]) -> None:
    one = warm()
    lent = one.lend_to("first")
    until(lambda: psutil.Process(lent.pid).children())
    (child,) = psutil.Process(lent.pid).children()
    lent.kill()
    assert still_running([child], WAIT_SECONDS) == []


def test_a_request_that_is_cut_off_or_of_another_kind_harms_nobody(warm: Callable[..., Warm]) -> None:
    one = warm()
    for data in (b"", b"\x00", b"\x00" * 8, b"\xff" * 64):
        with one.place.connect(1.0) as channel:
            channel.sendall(data)
    assert one.lend_to("first").poll() is None


def test_the_folder_of_a_runner_whose_process_is_gone_is_deleted(warm: Callable[..., Warm]) -> None:
    gone, there = new_place("gone"), warm().place
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    gone.describe({})
    about = Path(gone.folder) / "about.json"
    about.write_text(about.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {dead.pid}'))
    assert sweep_orphans() == [gone]
    assert places.warm_places() == [there]


def test_a_runner_of_another_container_stays_as_long_as_it_listens(warm: Callable[..., Warm]) -> None:
    one, silent = warm(), new_place("silent")
    for place in (one.place, silent):
        place.describe({"place": "another container"})
    assert sweep_orphans() == [silent]


def test_only_their_user_enters_the_folders(warm: Callable[..., Warm]) -> None:
    place = warm().place
    assert os.stat(place.folder).st_mode & 0o077 == 0
    assert os.stat(os.path.dirname(place.folder)).st_mode & 0o077 == 0


@pytest.mark.extended
def test_a_host_keeps_no_more_than_it_may(warm: Callable[..., Warm], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[_Ended] = []
    monkeypatch.setattr(taking, "_start_keeper", lambda *_: _Ended(started))
    settings = RunnerSettings("/root", {}, warm=parse_warm_runners("1"))
    one = warm()
    one.lend_to("busy")
    assert take_warm(settings, sys.executable, ["/root", "app", "other", "k"], {}, {}) is None
    assert not started


@pytest.mark.extended
def test_one_that_is_idle_makes_room_for_runs_of_another_kind(
    warm: Callable[..., Warm], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[_Ended] = []
    monkeypatch.setattr(taking, "_start_keeper", lambda *_: _Ended(started))
    one = warm()
    until(lambda: ask(one.place, STATE)["state"] == "idle")  # type: ignore[index]
    take_warm(
        RunnerSettings("/root", {}, warm=parse_warm_runners("1")),
        sys.executable,
        ["/root", "app", "other", "k"],
        {},
        {},
    )
    assert len(started) == 1
    assert "it was asked to" in one.ended()


class _Ended:
    """A process that has ended."""

    def __init__(self, started: list[_Ended]) -> None:
        started.append(self)

    def poll(self) -> int:
        return 1
