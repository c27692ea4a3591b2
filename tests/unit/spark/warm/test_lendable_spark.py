"""The memory that an idle warm runner gives back, and what its Java has again for the next run; Java is a stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from airflow_samza.spark.warm import lendable_spark
from airflow_samza.spark.warm.lendable_spark import WarmSpark


class Options:
    """The options of a Java, which rejects a least share that is above the largest, as Java does."""

    def __init__(self) -> None:
        self.values = {"MinHeapFreeRatio": "40", "MaxHeapFreeRatio": "70"}

    def getVMOption(self, name: str) -> Any:
        return SimpleNamespace(getValue=lambda: self.values[name])

    def setVMOption(self, name: str, value: str) -> None:
        values = {**self.values, name: value}
        assert int(values["MinHeapFreeRatio"]) <= int(values["MaxHeapFreeRatio"])
        self.values = values


class Server:
    """The server of a run in Java."""

    def __init__(self, conf: Any) -> None:
        self.start = lambda: None
        self.getListeningPort = lambda: 1
        self.secret = lambda: "s"


@pytest.fixture
def options() -> Options:
    return Options()


@pytest.fixture
def spark(options: Options, monkeypatch: pytest.MonkeyPatch) -> WarmSpark:
    factory = SimpleNamespace(getPlatformMXBean={"a bean": options}.__getitem__)
    names = {
        "java.lang.Class": SimpleNamespace(forName=lambda name: "a bean"),
        "java.lang.System": SimpleNamespace(gc=lambda: None),
        "org.apache.spark.api.python.Py4JServer": Server,
    }
    warm = WarmSpark({})
    java = SimpleNamespace(lang=SimpleNamespace(management=SimpleNamespace(ManagementFactory=factory)))
    warm._jvm = SimpleNamespace(java=java, **names)
    warm._context = SimpleNamespace(conf=lambda: None)
    warm._session = SimpleNamespace(_jsparkSession=None)  # type: ignore[assignment]
    warm.java = SimpleNamespace(pid=os.getpid(), children=list)  # type: ignore[assignment]
    monkeypatch.setattr(lendable_spark, "_sessions", lambda jvm: SimpleNamespace(setDefaultSession=lambda one: None))
    return warm


def test_a_heap_is_small_while_idle_and_as_before_in_every_run(spark: WarmSpark, options: Options) -> None:
    for _ in range(2):
        spark.shrink()
        spark.shrink()
        assert options.values == {"MinHeapFreeRatio": "5", "MaxHeapFreeRatio": "10"}
        spark.lend()
        assert options.values == {"MinHeapFreeRatio": "40", "MaxHeapFreeRatio": "70"}


def test_workers_are_gone_before_the_next_run_and_their_daemon_stays(spark: WarmSpark) -> None:
    forks = "import os, signal, time; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    forks += "for _ in range(2): os.fork()\nprint(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", forks], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        for _ in range(4):
            started.stdout.readline()
        daemon = psutil.Process(started.pid)
        workers = daemon.children(recursive=True)
        spark.java.children = lambda: [daemon]  # type: ignore[method-assign, union-attr]
        assert (len(workers), daemon.is_running()) == (3, True)
        left = spark._end_workers()
        started.kill()
    assert (left, [worker for worker in workers if worker.is_running()]) == ("", [])


def test_a_java_of_another_kind_keeps_its_heap(spark: WarmSpark, options: Options) -> None:
    spark._jvm.java.lang.management = None
    spark.shrink()
    spark.lend()
    assert options.values == {"MinHeapFreeRatio": "40", "MaxHeapFreeRatio": "70"}


def test_settings_that_a_run_has_changed_are_named_and_those_left_out_are_counted() -> None:
    before = {f"fs.{number}": "1" for number in range(7)}
    now = {**dict.fromkeys(before, "2"), "fs.0": "1", "fs.new": "hush"}
    assert lendable_spark._differing(now, before) == " (fs.1, fs.2, fs.3, fs.4, fs.5 and 2 more)"
    assert lendable_spark._differing({"fs.a": "2"}, {"fs.a": "1"}) == " (fs.a)"
