from __future__ import annotations

import errno
import os
import pwd

import pytest

from airflow_samza import private_folder
from airflow_samza.errors import RuntimeMissing
from airflow_samza.launch import host_needs
from airflow_samza.launch.host_needs import check_scratch, check_user


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

    monkeypatch.setattr(host_needs, "scratch_folder", read_only)
    with pytest.raises(RuntimeMissing, match="no folder for temporary files that can be written: Read-only") as caught:
        check_scratch()
    assert "emptyDir" in caught.value.hint


def test_a_user_without_a_name_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise OSError("No username set in the environment")

    assert private_folder.user_name()
    monkeypatch.setattr("getpass.getuser", unknown)
    assert private_folder.user_name() is None
