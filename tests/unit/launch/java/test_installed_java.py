from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path

import pytest

from airflow_samza import private_folder
from airflow_samza.errors import RuntimeMissing, StageFailed
from airflow_samza.launch.java import installed_java
from airflow_samza.launch.java.installed_java import NEEDED_MODULE, check_scratch, check_user, find_java


def java_home(folder: Path, *, release: str | None = None, says: str = "") -> Path:
    """A folder that looks like an installed Java."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(release)
    return folder


def test_finds_the_java_of_java_home_first(tmp_path: Path) -> None:
    home = java_home(tmp_path / "home", release=f'JAVA_VERSION="21.0.2"\nMODULES="java.base {NEEDED_MODULE}"\n')
    other = java_home(tmp_path / "other", release='JAVA_VERSION="17.0.1"\n')
    java = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (java.version, java.path) == ("21.0.2", str(home / "bin" / "java"))


def test_asks_the_program_when_there_is_no_release_file(tmp_path: Path) -> None:
    home = java_home(tmp_path, says='openjdk version "17.0.15" 2025-04-15')
    java = find_java({"PATH": f"{home / 'bin'}{os.pathsep}/bin"})
    assert (java.version, java.path) == ("17.0.15", str(home / "bin" / "java"))


def test_no_java_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(RuntimeMissing, match="no Java on this machine") as caught:
        find_java({"PATH": str(tmp_path)})
    assert "apt-get install openjdk-17-jre-headless" in caught.value.hint


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeMissing, match=r"JAVA_HOME is .*, but there is no Java at") as caught:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    assert caught.value.facts["java_home"] == str(tmp_path)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21"])
def test_an_old_java_is_named_with_version_and_path(tmp_path: Path, version: str) -> None:
    home = java_home(tmp_path, release=f'JAVA_VERSION="{version}"\n')
    with pytest.raises(RuntimeMissing, match=f"has version {version}, and Spark needs Java 17 or newer") as caught:
        find_java({"JAVA_HOME": str(home)})
    assert str(home / "bin" / "java") in caught.value.sentence


def test_a_trimmed_java_is_rejected_before_spark_dies_of_it(tmp_path: Path) -> None:
    home = java_home(tmp_path, release='JAVA_VERSION="17.0.1"\nMODULES="java.base java.sql"\n')
    with pytest.raises(RuntimeMissing, match=r"lacks the module jdk\.incubator\.vector"):
        find_java({"JAVA_HOME": str(home)})


def test_a_program_that_is_no_java_is_rejected(tmp_path: Path) -> None:
    home = java_home(tmp_path, says="hello")
    with pytest.raises(RuntimeMissing, match="does not tell its version; it says 'hello'"):
        find_java({"JAVA_HOME": str(home)})


def test_a_java_that_is_killed_while_it_tells_its_version_is_named_by_the_signal_and_tried_again(
    tmp_path: Path,
) -> None:
    home = java_home(tmp_path)
    (home / "bin" / "java").write_text("#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(StageFailed) as caught:
        find_java({"JAVA_HOME": str(home)})
    assert caught.value.sentence == "Spark does not start: Java was killed by signal 9 (out of memory?)"
    assert caught.value.retryable


def test_this_host_has_what_a_runner_needs() -> None:
    check_scratch()
    check_user()


def test_rejects_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "me")  # which Java does not look at

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(RuntimeMissing, match=rf"The user id {os.geteuid()} has no entry in /etc/passwd"):
        check_user()


def test_rejects_a_host_without_a_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*below: str) -> str:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(installed_java, "scratch_folder", read_only)
    with pytest.raises(RuntimeMissing, match="no folder for temporary files that can be written: Read-only") as caught:
        check_scratch()
    assert "emptyDir" in caught.value.hint


def test_a_user_without_a_name_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise OSError("No username set in the environment")

    assert private_folder.user_name()
    monkeypatch.setattr("getpass.getuser", unknown)
    assert private_folder.user_name() is None
