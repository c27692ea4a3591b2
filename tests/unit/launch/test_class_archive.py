"""Archives of Spark's classes: which one is mapped, who makes it, and what is in the way.

The Javas here are scripts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_samza.errors import ConfigError, RuntimeMissing, SamzaError
from airflow_samza.launch import class_archive as archives
from airflow_samza.launch.class_archive import (
    ClassArchive,
    archived_classes,
    class_archive,
    has_own_word,
    java_options,
    session_archive,
)
from airflow_samza.launch.class_archive_maker import main, make, reason
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.spark.spark_engine import SparkEngine
from tests.support.stand_ins import Session

OWN = "-XX:+UseSerialGC"
RELEASE = 'JAVA_VERSION="17.0.1"\nMODULES="java.base jdk.incubator.vector"\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a Java and a Spark, as far as names and sizes go; both are what this process would start."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'Error occurred during initialization of VM'\necho 'Cannot do this.'\nexit 1\n")
    java.chmod(0o755)
    (tmp_path / "java" / "release").write_text(RELEASE)
    (tmp_path / "java" / "lib" / "server").mkdir(parents=True)
    (tmp_path / "java" / "lib" / "server" / "classes.jsa").write_bytes(b"base")
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "spark-core.jar").write_bytes(b"core")
    for name in (*archives._OPTIONS_FROM, archives.VARIABLE, "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    return tmp_path


Started = list[tuple[list[str], dict[str, object]]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The processes that are asked for; none is started."""
    found: Started = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: found.append((command, options)))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "archives")


def trained(new: Path, extra_class_path: str, lock: int) -> None:
    new.write_bytes(b"classes")


def made(folder: str) -> str:
    path = make(folder, train=trained)
    assert path is not None
    return path


@pytest.mark.usefixtures("home")
def test_the_archive_is_named_after_what_it_fits_and_found_again(folder: str) -> None:
    assert class_archive(folder).find() is None
    path = made(folder)
    assert class_archive(folder).find() == path


@pytest.mark.parametrize(
    "changed", ["java/release", "java/lib/server/classes.jsa", "spark/jars/spark-core.jar", "spark/jars/another.jar"]
)
def test_another_java_and_other_jars_need_another_archive(home: Path, folder: str, changed: str) -> None:
    path = made(folder)
    (home / changed).write_text(f"{RELEASE}# updated\n")
    assert class_archive(folder).find() is None
    assert made(folder) != path
    assert not os.path.exists(path)  # nothing fits it any more


def test_jars_in_another_order_need_another_archive(home: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "spark" / "jars" / "another.jar").write_bytes(b"more")
    before, listed = class_archive(folder), os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: list(reversed(listed(path))))
    assert class_archive(folder).state != before.state


@pytest.mark.usefixtures("home")
def test_another_class_path_has_an_archive_beside(folder: str) -> None:
    path = made(folder)
    other = make(folder, extra_class_path="/opt/own.jar", train=trained)
    assert other != path
    assert class_archive(folder).find() == path
    assert class_archive(folder, {"spark.driver.extraClassPath": "/opt/own.jar"}).find() == other


@pytest.mark.usefixtures("home")
def test_an_archive_that_was_cut_off_is_not_mapped(folder: str) -> None:
    path = made(folder)
    os.truncate(path, 3)
    assert class_archive(folder).find() is None


@pytest.mark.usefixtures("home")
def test_without_the_setting_there_is_none(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    assert session_archive(None, "local[*]", {}) is None
    monkeypatch.setenv(archives.VARIABLE, folder)
    assert session_archive(None, "local[*]", {}) == class_archive(folder)
    assert session_archive("/elsewhere", "local[*]", {}) == class_archive("/elsewhere")


@pytest.mark.usefixtures("home")
def test_the_folder_may_begin_where_the_asker_is(folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert archives.configured("archives") == archives.configured("~/archives") == folder
    assert archives.configured() is None


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "sc://host:15002"])
def test_only_a_java_of_this_machine_maps_one(folder: str, master: str) -> None:
    assert session_archive(folder, master, {}) is None


@pytest.mark.usefixtures("home")
def test_a_java_that_runs_already_maps_none(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert session_archive(folder, "local[*]", {}) is None


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "option", ["-Xshare:off", "-XX:SharedArchiveFile=/opt/own.jsa", "-XX:ArchiveClassesAtExit=/opt/own.jsa"]
)
def test_whoever_speaks_of_archives_to_java_has_the_only_word(
    folder: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session_archive(folder, "local[*]", {"spark.driver.extraJavaOptions": option}) is None
    for name in ("JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        with monkeypatch.context() as patched:
            patched.setenv(name, f"{OWN} {option}")
            assert session_archive(folder, "local[*]", {}) is None
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", OWN)
    assert not has_own_word({"spark.driver.extraJavaOptions": OWN})


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("before", [None, OWN])
def test_the_users_own_options_come_behind_and_stay(
    folder: str, before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if before is not None:
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", before)
    path = made(folder)
    with archived_classes(class_archive(folder)):
        assert os.environ["SPARK_SUBMIT_OPTS"] == f"{java_options(path)} {before or ''}".strip()
    assert os.environ.get("SPARK_SUBMIT_OPTS") == before


@pytest.mark.usefixtures("home")
def test_where_one_can_be_made_nothing_is_said_and_nothing_is_changed(
    folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    with archived_classes(class_archive(folder)):
        assert "SPARK_SUBMIT_OPTS" not in os.environ
    assert caplog.records == []


def no_folder(home: Path, folder: str, patched: pytest.MonkeyPatch) -> None:
    Path(folder).write_text("a file")


def not_writable(home: Path, folder: str, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(os, "access", lambda path, mode: str(path) != folder)


def full(home: Path, folder: str, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=12_000_000))


def bare_java(home: Path, folder: str, patched: pytest.MonkeyPatch) -> None:
    (home / "java" / "lib" / "server" / "classes.jsa").unlink()


def settings_of_spark(home: Path, folder: str, patched: pytest.MonkeyPatch) -> None:
    (home / "spark" / "conf").mkdir()
    (home / "spark" / "conf" / "spark-defaults.conf").write_text("")


@pytest.mark.parametrize(
    ("hinder", "sentence"),
    [
        (no_folder, r"it cannot be created \(.*\)\. Create it for the user that runs stages, or name another folder"),
        (not_writable, r"it cannot be written\. Let the user that runs stages write there, or name another folder"),
        (full, r"12 MB are free there, and it takes 400\. Make room, or name another folder"),
        (bare_java, r"has no archive of its own classes\. Let its owner run: .*/bin/java -Xshare:dump"),
        (settings_of_spark, r"the folder .*/spark/conf stands before Spark's jars on the class path"),
    ],
)
def test_what_is_in_the_way_is_said_in_one_line_and_spark_starts_as_ever(
    home: Path,
    folder: str,
    hinder: object,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    started: Started,
) -> None:
    assert callable(hinder)
    hinder(home, folder, monkeypatch)
    archive = class_archive(folder)
    with archived_classes(archive):
        assert "SPARK_SUBMIT_OPTS" not in os.environ
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "\n" not in record.getMessage()
    with pytest.raises(ConfigError, match=sentence) as caught:
        make(folder, train=trained)
    assert caught.value.sentence == record.getMessage()
    assert folder in record.getMessage()
    archives.make_in_background({"class_archives": folder, "master": "local", "conf": {}})
    assert started == []


@pytest.mark.usefixtures("home")
def test_of_many_makers_one_does_the_work(folder: str) -> None:
    begun, go_on, trainings = threading.Event(), threading.Event(), []

    def slowly(new: Path, extra_class_path: str, lock: int) -> None:
        trainings.append(new)
        begun.set()
        assert go_on.wait(60)
        new.write_bytes(b"classes")

    found: list[str | None] = []
    makers = [threading.Thread(target=lambda: found.append(make(folder, train=slowly))) for _ in range(4)]
    for maker in makers:
        maker.start()
    assert begun.wait(60)
    assert make(folder, wait=False, train=slowly) is None  # in the background nobody waits for another
    go_on.set()
    for maker in makers:
        maker.join(60)
    assert len(trainings) == 1
    assert found == [class_archive(folder).find()] * 4


@pytest.mark.usefixtures("home")
def test_a_maker_that_was_killed_leaves_nothing_that_the_next_one_cannot_get_past(folder: str) -> None:
    archive = class_archive(folder)
    left = Path(folder) / f".making-{archive.place}-dead"
    left.mkdir(parents=True)
    (left / "new.jsa").write_bytes(b"cla")
    (Path(folder) / f"{archive.place}.lock").touch()
    assert make(folder, wait=False, train=trained) == archive.find()
    assert sorted(os.listdir(folder)) == sorted([f"{archive.place}.lock", os.path.basename(archive.find() or "")])


@pytest.mark.usefixtures("home")
def test_a_failure_is_noted_said_to_runners_and_not_tried_again_for_a_day(
    folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(new: Path, extra_class_path: str, lock: int) -> None:
        new.write_bytes(b"half of it")
        raise RuntimeMissing("Java made none: no wish to.", hint="Ask it.", why="no wish to")

    with pytest.raises(RuntimeMissing):
        make(folder, train=fails)
    archive = class_archive(folder)
    assert archive.find() is None
    with archived_classes(archive):
        pass
    assert caplog.messages == [
        f"No archive of Spark's classes is made in {folder} ([samza] class_archives): no wish to. Ask it."
    ]
    with pytest.raises(ConfigError, match="no wish to"):
        make(folder, wait=False, train=trained)
    long_ago = time.time() - 2 * 86_400
    os.utime(archive.note, (long_ago, long_ago))
    assert make(folder, wait=False, train=trained) == archive.find()


@pytest.mark.usefixtures("home")
def test_who_asks_for_an_archive_has_it_tried_again(folder: str) -> None:
    archive = class_archive(folder)
    os.makedirs(folder)
    Path(archive.note).write_text("no wish to")
    assert made(folder) == archive.find()
    assert not os.path.exists(archive.note)


@pytest.mark.usefixtures("home")
def test_archives_of_other_places_stay_while_somebody_maps_them(folder: str) -> None:
    os.makedirs(folder)
    used, unused = (Path(folder) / f"{letter * 12}-{letter * 12}-4.jsa" for letter in "ab")
    for path in (used, unused, Path(folder) / "mine.txt"):
        path.write_bytes(b"four")
        os.utime(path, (0, 0))
    os.utime(used)
    made(folder)
    assert used.exists()
    assert not unused.exists()
    assert (Path(folder) / "mine.txt").exists()


@pytest.mark.usefixtures("home")
def test_mapping_an_archive_is_using_it(folder: str) -> None:
    path = made(folder)
    os.utime(path, (0, 0))
    with archived_classes(class_archive(folder)):
        assert time.time() - os.path.getmtime(path) < 86_400


@pytest.mark.usefixtures("home")
def test_what_java_says_is_noted_and_told(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SPARK_HOME")  # the real Spark, on a Java that only complains
    assert main([folder]) == 1
    assert capsys.readouterr().err.startswith(
        "Java made no archive of Spark's classes: Cannot do this.\n  Hint: Fix it, and try: "
    )
    assert Path(class_archive(folder).note).read_text().startswith("Cannot do this. Fix it, and try: ")
    assert not [name for name in os.listdir(folder) if name.startswith(".making")]


@pytest.mark.usefixtures("home")
def test_the_command_takes_the_folder_of_the_setting(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made(folder)
    monkeypatch.setenv(archives.VARIABLE, folder)
    assert main([]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: 0 MB")


def engine(folder: str, master: str, **conf: str) -> SparkEngine:
    """An engine that a runner has opened."""
    return SparkEngine(Session(), {"master": master, "conf": conf, "class_archives": folder})


@pytest.mark.usefixtures("home")
def test_a_runner_that_ends_has_one_made_by_a_process_that_outlives_it(folder: str, started: Started) -> None:
    engine(folder, "local[*]", **{"spark.driver.extraClassPath": "/opt/own.jar"}).stop()
    ((command, options),) = started
    assert command[1:] == [
        "-m",
        "airflow_samza.launch.class_archive_maker",
        folder,
        "--in-background",
        "--extra-class-path",
        "/opt/own.jar",
    ]
    assert options["start_new_session"] is True


@pytest.mark.usefixtures("home")
def test_a_runner_has_none_made_that_is_there_or_that_is_not_its_own_to_make(folder: str, started: Started) -> None:
    engine(folder, "spark://host:7077").stop()
    engine(folder, "local[*]").stop(in_a_hurry=True)  # by a signal: its host is to be left
    made(folder)
    engine(folder, "local[*]").stop()
    assert started == []


def test_runners_with_other_archives_are_the_same(folder: str) -> None:
    plain, other = RunnerSettings("/root", {}), RunnerSettings("/root", {}, class_archives=folder)
    assert plain.key == other.key
    assert other.to_json()["class_archives"] == folder


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "[0.1s][error][cds] Error: non-empty directory 'x'\nCannot have non-empty directory in paths\n",
            "Cannot have non-empty directory in paths",
        ),
        (
            "Unable to write to shared archive file.\nError occurred\nUnable to use shared archive.\n",
            "Unable to write to shared archive file",
        ),
        ("Traceback:\nValueError: x.\n", "ValueError: x"),
        ("Killed\n", "Killed"),
        ("", "it says nothing"),
    ],
)
def test_the_line_that_says_most_is_told(said: str, told: str) -> None:
    assert reason(said) == told


def test_a_java_that_is_missing_is_not_our_business(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", folder)
    assert session_archive(folder, "local[*]", {}) is None
    with pytest.raises(SamzaError):
        make(folder)


def test_an_archive_knows_its_path() -> None:
    archive = ClassArchive("/a", "1" * 12, "2" * 12, "/java")
    assert archive.path(7) == f"/a/{'1' * 12}-{'2' * 12}-7.jsa"
