"""A Java that starts in a thread: its session waits for it, and one that nobody will use leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import RuntimeMissing
from airflow_samza.launch.java.installed_java import why_spark_does_not_start
from airflow_samza.spark.sessions import java_start, session_start
from airflow_samza.spark.sessions.java_start import EarlyJava


def test_the_reason_why_java_does_not_start_is_raised_where_its_settings_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    early = EarlyJava("views", "local[1]", {})
    with pytest.raises(RuntimeMissing, match="there is no Java at /nowhere/bin/java"):
        early.settings()


def test_a_session_takes_the_java_that_was_started_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    def start(*session: Any) -> dict[str, str]:
        started.append(session)
        raise RuntimeMissing("as far as this test goes", hint="none")

    for module in (java_start, session_start):
        monkeypatch.setattr(module, "start_java", start)
    session_start.start_early("views", "local[1]", {"spark.a": "1"})
    for expected in (1, 2):
        with pytest.raises(RuntimeMissing, match="as far as"):
            session_start.start_session("views", "local[1]", {"spark.a": "1"})
        assert len(started) == expected


def test_a_java_that_nobody_will_use_is_ended_and_its_settings_are_gone(tmp_path: Path) -> None:
    """Played in a process of its own: all its children are ended."""
    script = f"""
import subprocess, time
from pathlib import Path
from airflow_samza.launch.java import local_java
from airflow_samza.spark.sessions import java_start

folder = Path({str(tmp_path)!r})
local_java.own_scratch = lambda *_: str(folder)

def start(*_):
    with local_java.unseen_settings({{"spark.secret": "1"}}):
        child = subprocess.Popen(["sleep", "600"])
        (folder / "up").touch()
        child.wait()

java_start.start_java = start
early = java_start.EarlyJava("views", "local", {{}})
while not (folder / "up").exists():
    time.sleep(0.01)
assert list(folder.glob("*/spark.conf"))
early.abandon()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    assert [path.name for path in tmp_path.iterdir()] == ["up"]


def test_a_java_that_runs_already_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(java_start, "find_java", lambda: asked.append("java"))
    settings = java_start.start_java("views", "spark://here", {"spark.a": "1"})
    assert settings["spark.a"] == "1"
    assert asked == []


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("kill -9 $$", "Java was killed by signal 9 (out of memory?)"),
        ("exit 137", "Java was killed by signal 9 (out of memory?)"),
        ("exit 1", "Java ended before it was up"),
        ("echo 'Error: no room' >&2; exit 1", "Error: no room"),
        (
            "JAVA_HOME=$SPARK_HOME/java SPARK_HOME=$PYSPARK exec $PYSPARK/bin/spark-submit pyspark-shell",
            "Java ended without a word: the kernel may have killed it for memory",  # the one that makes Java's command
        ),
    ],
)
def test_a_java_that_is_killed_at_its_start_is_named_by_the_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, reason: str
) -> None:
    from pyspark import java_gateway
    from pyspark.errors import PySparkRuntimeError

    program = tmp_path / "bin/spark-submit"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'WARNING: Using incubator modules: jdk.incubator.vector' >&2\n{end}\n")
    program.chmod(0o755)
    java = tmp_path / "java/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nkill -9 $$\n")
    java.chmod(0o755)
    monkeypatch.setenv("PYSPARK", os.path.dirname(java_gateway.__file__))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    launch: Any = java_gateway.launch_gateway
    with open(tmp_path / "log", "wb") as log, pytest.raises(PySparkRuntimeError) as caught:
        launch(popen_kwargs={"stderr": log})
    trace = caught.tb
    while (process := trace.tb_frame.f_locals.get("proc")) is None and trace.tb_next is not None:
        trace = trace.tb_next
    assert process is not None
    process.stdin.close()  # PySpark leaves it open
    (tmp_path / "log").write_bytes(
        (tmp_path / "log").read_bytes()
        + b"pyspark.errors.exceptions.base.PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited\n"
    )  # of a start before, which is in the log of the same runner
    assert why_spark_does_not_start(caught.value, str(tmp_path / "log")) == reason
    handed_on = RuntimeError(str(caught.value))
    handed_on.__cause__ = caught.value
    assert why_spark_does_not_start(handed_on, str(tmp_path / "log")) == reason
