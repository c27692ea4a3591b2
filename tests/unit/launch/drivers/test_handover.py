from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_samza.errors import StageFailed
from airflow_samza.launch.drivers.handover import leave_settings, seal, unseal


def test_only_its_owner_can_read_settings_that_lie_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "spark.conf"
    previous = os.umask(0)
    try:
        leave_settings(str(path), b"password=hidden")
    finally:
        os.umask(previous)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == "password=hidden"


def test_what_another_file_holds_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "spark.conf"
    path.write_text("another's")
    with pytest.raises(FileExistsError):
        leave_settings(str(path), b"{}")
    assert path.read_text() == "another's"


def test_an_old_key_does_not_open_another_hand_over() -> None:
    sealed, key = seal(b'{"password": "hidden"}')
    other, other_key = seal(b'{"password": "hidden"}')
    assert unseal(sealed, key) == unseal(other, other_key)
    assert sealed != other
    for damaged, wrong in ((sealed, other_key), (sealed[:-1], key), (b"", key)):
        with pytest.raises(StageFailed, match="does not fit its key"):
            unseal(damaged, wrong)
