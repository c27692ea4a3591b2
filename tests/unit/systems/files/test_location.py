"""Paths that lead out of their system's root, by name or by link."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding

IN = StreamSpec("views", 1, "id int", path="in/x", format="jsonl", below="in")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("root/in/x", "other/x"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "root/in/out").symlink_to(tmp_path / "other")
    (tmp_path / "root/in/near").symlink_to("x")
    return tmp_path / "root"


def files_of(root: Path, path: str, below: str | None = "in", **more: object) -> int:
    system = FilesSystem("lake", SystemBinding("files", {"root": str(root)}))
    stream = dataclasses.replace(IN, path=path, below=below, **more)  # type: ignore[arg-type]
    return len(system.slice(stream)["files"])


@pytest.mark.parametrize("path", ["../other/x", "in/../../other/x", "..", "in/x/../../../other"])
@pytest.mark.parametrize("below", ["in", None])
def test_rejects_a_path_that_climbs_out_of_the_root(root: Path, path: str, below: str | None) -> None:
    with pytest.raises(TopicError, match="leads out of") as caught:
        files_of(root, path, below)
    assert "'views'" in caught.value.sentence


@pytest.mark.parametrize("path", ["in/out/x", "in/out", "in/out/*/*.jsonl"])
def test_rejects_a_link_out_of_the_root_when_a_value_of_the_run_chose_it(root: Path, path: str) -> None:
    with pytest.raises(TopicError, match="leads out of"):
        files_of(root, path)
    assert files_of(root, path, below=None) == 1  # the code says it, so whoever wrote that meant it


@pytest.mark.parametrize("path", ["in/x", "in/near", "in/n*", "in/../in/x", "in/x/nothing-*"])
def test_what_stays_in_the_root_is_read(root: Path, path: str) -> None:
    assert files_of(root, path) == (0 if "nothing" in path else 1)


def test_values_stay_below_the_folder_that_an_absolute_path_names(root: Path) -> None:
    inside, link = str(root / "in/near"), str(root / "in/out/x")
    assert files_of(root, inside, str(root / "in")) == 1
    assert files_of(root, f"file://{inside}", f"file://{root}/in") == 1
    for path, below in ((link, str(root / "in")), (f"file://{link}", f"file://{root}/in")):
        with pytest.raises(TopicError, match="leads out of"):
            files_of(root, path, below)
    assert files_of(root, link, None) == 1


def test_an_output_leads_out_of_the_root_as_little_as_an_input(root: Path) -> None:
    system = FilesSystem("lake", SystemBinding("files", {"root": str(root)}))
    with pytest.raises(TopicError, match="leads out of"):
        system.create([dataclasses.replace(IN, path="in/out/new", written=True)])
    assert not (root.parent / "other/new").exists()


@pytest.mark.parametrize("count", ["0", "65537", "many"])
def test_rejects_partitions_of_a_binding_that_are_no_count(root: Path, count: str) -> None:
    system = FilesSystem("lake", SystemBinding("files", {"root": str(root), "partitions": count}))
    with pytest.raises(ConfigError, match=f"has '{count}' partitions"):
        system.metadata([dataclasses.replace(IN, partitions=None)])
