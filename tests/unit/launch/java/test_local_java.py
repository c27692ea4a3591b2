"""The options that a Java of this host gets, and those of the user's that come before them."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from airflow_samza.launch.java.local_java import LATE_SECOND_COMPILER, LAUNCHER, quick_start


@pytest.fixture(autouse=True)
def _no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)


def test_a_java_that_starts_meanwhile_compiles_late_and_no_later_one() -> None:
    with quick_start({}):
        assert os.environ["SPARK_SUBMIT_OPTS"] == LATE_SECOND_COMPILER
        assert os.environ["SPARK_LAUNCHER_OPTS"] == LAUNCHER
    assert "SPARK_SUBMIT_OPTS" not in os.environ
    assert "SPARK_LAUNCHER_OPTS" not in os.environ


def test_the_users_own_options_stay_and_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC")
    monkeypatch.setenv("SPARK_LAUNCHER_OPTS", "-Xmx64m")
    with quick_start({}):
        assert os.environ["SPARK_SUBMIT_OPTS"] == f"{LATE_SECOND_COMPILER} -XX:+UseSerialGC"
        assert os.environ["SPARK_LAUNCHER_OPTS"] == "-Xmx64m"
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-XX:+UseSerialGC"


@pytest.mark.parametrize(
    ("variable", "conf"),
    [
        ("-XX:TieredStopAtLevel=1", {}),
        ("-Xint", {}),
        ("", {"spark.driver.extraJavaOptions": "-XX:CompileThreshold=100"}),
        ("", {"spark.driver.defaultJavaOptions": "-XX:-TieredCompilation"}),
    ],
)
def test_the_users_options_of_compilation_alone_apply(
    monkeypatch: pytest.MonkeyPatch, variable: str, conf: dict[str, str]
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", variable)
    with quick_start(conf):
        assert os.environ["SPARK_SUBMIT_OPTS"] == variable


@pytest.mark.parametrize("options", [LATE_SECOND_COMPILER, LAUNCHER])
def test_java_knows_the_options(options: str) -> None:
    java = shutil.which("java")
    assert java is not None
    done = subprocess.run([java, *options.split(), "-version"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr.lower()
