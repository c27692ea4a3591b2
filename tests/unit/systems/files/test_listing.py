"""Everything below a path is read, or said to be none: nothing is passed over."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding


def names(root: Path, path: str) -> list[str]:
    fixed = FilesSystem("lake", SystemBinding("files", {"root": str(root)})).slice(
        StreamSpec("in", 1, "a bigint", format="parquet", path=path)
    )
    return [str(Path(file["path"]).relative_to(root)) for file in fixed["files"]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in/day=1").mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "in/day=1/a.parquet")
    return tmp_path


@pytest.mark.parametrize("link", ["in/day=1/b.parquet", "in/day=2"])
@pytest.mark.parametrize("path", ["in", "in/", "in/*/*.parquet", "in/**", "in/**/*.parquet"])
def test_rejects_a_link_that_leads_nowhere(root: Path, link: str, path: str) -> None:
    os.symlink(root / "gone", root / link)
    with pytest.raises(TopicError, match=rf"{link} is a link that leads nowhere \(to .*/gone\)"):
        names(root, path)


def test_rejects_a_path_that_is_such_a_link_and_links_in_a_circle(root: Path) -> None:
    os.symlink("circle", root / "circle")
    for path in ("circle", "cir*"):
        with pytest.raises(TopicError, match=r"circle is a link that leads nowhere \(to circle\)"):
            names(root, path)


def test_rejects_what_is_neither_file_nor_directory(root: Path) -> None:
    os.mkfifo(root / "in/day=1/pipe.parquet")
    with pytest.raises(TopicError, match=r"pipe\.parquet is neither a file nor a directory"):
        names(root, "in")
    (root / "in/day=1/pipe.parquet").unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(root / "in/s"))
        with pytest.raises(TopicError, match="in/s is neither a file nor a directory"):
            names(root, "in")


def test_hidden_ones_and_links_that_lead_somewhere_are_fine(root: Path) -> None:
    os.symlink(root / "gone", root / "in/.lock")
    os.symlink(root / "gone", root / "in/_tmp")
    (root / "other").mkdir()
    pq.write_table(pa.table({"a": [2]}), root / "other/c.parquet")
    os.symlink(root / "other", root / "in/more")
    assert names(root, "in") == ["in/day=1/a.parquet", "in/more/c.parquet"]
