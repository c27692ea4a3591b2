from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from airflow_samza.errors import StageFailed
from airflow_samza.launch.drivers.handover import leave_settings, seal, take_settings, unseal, withdraw_settings


def test_only_its_owner_can_read_what_is_handed_over_and_only_once(tmp_path: Path) -> None:
    path = tmp_path / "handover.json"
    previous = os.umask(0)
    try:
        leave_settings(str(path), json.dumps({"password": "hidden"}).encode())
    finally:
        os.umask(previous)
    assert path.stat().st_mode & 0o777 == 0o600
    assert take_settings(str(path)) == {"password": "hidden"}
    assert not path.exists()
    with pytest.raises(StageFailed, match="There is no hand-over"):
        take_settings(str(path))


def test_what_another_file_holds_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "handover.json"
    path.write_text("another's")
    with pytest.raises(FileExistsError):
        leave_settings(str(path), b"{}")
    assert path.read_text() == "another's"


def test_what_nobody_took_is_withdrawn(tmp_path: Path) -> None:
    path = tmp_path / "handover.json"
    leave_settings(str(path), b"{}")
    withdraw_settings(str(path))
    assert not path.exists()
    withdraw_settings(str(path))


def test_an_old_key_does_not_open_another_hand_over() -> None:
    sealed, key = seal(b'{"password": "hidden"}')
    other, other_key = seal(b'{"password": "hidden"}')
    assert unseal(sealed, key) == unseal(other, other_key)
    assert sealed != other
    for damaged, wrong in ((sealed, other_key), (sealed[:-1], key), (b"", key)):
        with pytest.raises(StageFailed, match="does not fit its key"):
            unseal(damaged, wrong)
