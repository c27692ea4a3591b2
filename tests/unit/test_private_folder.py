"""Folders whose content is believed: who made them, and who else may write there, is looked at."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.private_folder import named_folder, planted_by, private_folder, scratch_folder


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the folders that the tests create belong to somebody else."""
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)


def test_a_folder_is_made_for_its_owner_alone_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = private_folder(str(tmp_path / "a"))
    finally:
        os.umask(before)
    assert mode(made) == 0o700
    assert private_folder(made) == made


def test_a_folder_of_ours_that_others_could_read_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    assert mode(private_folder(str(tmp_path / "a"))) == 0o700


@pytest.mark.parametrize("bits", [0o777, 0o720, 0o702, 0o1777])
def test_rejects_a_folder_when_others_could_write_there(tmp_path: Path, bits: int) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(bits)
    with pytest.raises(ConfigError, match="can be written by others: what lies there could have been planted"):
        private_folder(str(tmp_path / "a"))
    with pytest.raises(ConfigError, match="can be written by others"):
        named_folder(str(tmp_path / "a"))


def test_rejects_a_folder_when_it_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="a is a link"):
        private_folder(str(tmp_path / "a"))
    assert named_folder(str(tmp_path / "a"))  # who names a link means it


def test_rejects_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(ConfigError, match="a is no folder"):
        private_folder(str(tmp_path / "a"))


@pytest.mark.usefixtures("others")
def test_rejects_a_folder_when_it_belongs_to_another_user(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o700)
    for check in (private_folder, named_folder):
        with pytest.raises(ConfigError, match="a belongs to another user"):
            check(str(tmp_path / "a"))


def test_a_named_folder_of_ours_may_be_read_by_others_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    assert mode(named_folder(str(tmp_path / "a"))) == 0o755
    assert mode(named_folder(str(tmp_path / "b"))) == 0o700


def test_the_scratch_folder_is_looked_at_every_time_and_below_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    inner = Path(scratch_folder("sockets", "x"))
    assert inner == tmp_path / f"airflow-samza-{os.geteuid()}" / "sockets" / "x"
    assert {mode(inner), mode(inner.parent), mode(inner.parent.parent)} == {0o700}
    inner.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="sockets can be written by others"):
        scratch_folder("sockets", "x")


def test_who_could_have_written_a_file_is_said_by_its_owner_its_mode_and_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.jsa"
    file.write_text("")
    file.chmod(0o644)
    (tmp_path / "b.jsa").symlink_to(file)
    assert planted_by(str(file)) is None
    assert planted_by(str(tmp_path / "b.jsa")) is None
    mine = os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: mine + 1)
        assert (planted_by(str(file)) is None) == (mine == 0)
    file.chmod(0o666)
    for name in ("a.jsa", "b.jsa"):
        assert planted_by(str(tmp_path / name)) == "may be written by everybody"
    file.chmod(0o644)
    tmp_path.chmod(0o777)
    assert planted_by(str(file)) == f"lies in {tmp_path}, which may be written by everybody"
