"""Records that former releases have written are read, and none changes its shape unnoticed."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import RecordUnreadable
from airflow_samza.records import FORMS, decode, encode
from airflow_samza.runs.progress.run_list import newest_runs
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.push_request import push_handle
from airflow_samza.runs.upkeep.fsck import fsck_run, fsck_state, fsck_tables
from airflow_samza.systems.log.fsck import fsck
from tests.support.pushes import TOPIC, Pushes
from tests.support.record_samples import (
    COUNTING,
    FOLDER,
    ROOT,
    SAMPLES,
    SHAPES,
    append_clicks,
    file_of,
    kinds,
    shape,
    version,
)
from tests.support.runs_here import Here

BY_FILE = {file_of(type(sample)): sample for sample in SAMPLES}
GOLDEN = sorted(path for path in FOLDER.glob("*/*.json") if path.name != SHAPES)
TO_DO = (
    "If a reader of the former shape would misunderstand it, give it a new format with an upgrade; a key that came later "
    "goes into later=. Then write the golden files of this release: python -m tests.support.record_samples"
)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_record_of_a_release_is_read(path: Path) -> None:
    sample = BY_FILE[path.name]
    assert decode(type(sample), path.read_bytes(), path.name) == sample


@pytest.fixture(params=sorted(FOLDER.glob(f"*/{ROOT}")), ids=lambda path: path.parent.name)
def former(request: pytest.FixtureRequest, tmp_path: Path) -> Here:
    """A root as a release has left it."""
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path)
    return Here(tmp_path)


def test_a_run_that_a_former_release_has_planned_is_finished_and_its_state_goes_on(former: Here) -> None:
    former.stages(former.runtime.load_plan("counting", "run-1"))
    append_clicks(former, 10)
    former.whole(COUNTING, "run-2")
    numbers: dict[int, list[int]] = {}
    for row in former.rows("numbered"):
        numbers.setdefault(row["member"], []).append(row["number"])
    assert {member: sorted(found) for member, found in numbers.items()} == {m: [1, 2, 3, 4, 5] for m in range(3)}


def test_versions_of_a_table_of_a_former_release_are_read_and_pushed_upon(former: Here) -> None:
    pushes = Pushes(former.root)
    assert [version.push_id for version in versions.versions(pushes.files, "log", TOPIC.name)] == ["monday", "tuesday"]
    made = pushes.push("wednesday", {4: "silver"}, mode="incremental")
    assert pushes.rows_of(made) == {1: "gold", 2: "gold", 4: "silver"}


def test_fsck_finds_nothing_in_a_root_of_a_former_release(former: Here) -> None:
    files = former.log.filesystem
    found = [finding for run in newest_runs(files) for finding in fsck_run(files, run.folder)]
    found += list(fsck_run(files, push_handle("app", "profiles", "monday").run))
    found += [finding for _, more in (*fsck_state(files), *fsck_tables(files)) for finding in more]
    assert not found
    for name in former.log.topics():
        assert not fsck(former.log.topic(name))


def test_each_kind_of_record_has_a_sample_and_a_golden_file() -> None:
    assert sorted(map(file_of, kinds())) == sorted(BY_FILE)
    assert {path.name for path in GOLDEN if path.parent.name == version()} == set(BY_FILE)


def test_a_record_changes_its_shape_only_with_a_new_golden_file() -> None:
    known = json.loads((FOLDER / version() / SHAPES).read_text())
    changed = {name for name, found in {file_of(kind): shape(kind) for kind in kinds()}.items() if found != known[name]}
    assert not changed, f"{', '.join(sorted(changed))} changed. {TO_DO}"


def test_golden_files_are_what_is_written_today() -> None:
    for sample in SAMPLES:
        golden = json.loads((FOLDER / version() / file_of(type(sample))).read_text())
        assert golden == json.loads(encode(sample)), TO_DO


@pytest.mark.parametrize("name", sorted(BY_FILE))
def test_rejects_each_record_with_its_file_when_it_lacks_a_key_or_is_newer_or_of_another_type(name: str) -> None:
    sample: Any = BY_FILE[name]
    kind, found = type(sample), json.loads(encode(sample))
    form = FORMS[kind]
    assert decode(kind, json.dumps({**found, "a key of a later version": 1}).encode(), "x") == sample
    with pytest.raises(RecordUnreadable, match=f"x is a {form.title} of format 99, and this version"):
        decode(kind, json.dumps({**found, "format": 99}).encode(), "x")
    for key in found:
        if key == "format" or key in form.later or form.reports:
            continue
        with pytest.raises(RecordUnreadable, match=f"The record x is damaged: it has no '{key}'"):
            decode(kind, json.dumps({name: value for name, value in found.items() if name != key}).encode(), "x")
        wrong: Any = 7 if isinstance(found[key], list | dict) else [[{}]]
        with pytest.raises(RecordUnreadable, match="The record x is damaged: "):
            decode(kind, json.dumps({**found, key: wrong}).encode(), "x")
