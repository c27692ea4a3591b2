"""A look at the records of states and pushed tables: each that is damaged is named."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.runs.tables.retention import expire_versions
from airflow_samza.runs.upkeep.fsck import fsck_state, fsck_tables
from airflow_samza.systems.filesystems.filesystem import Filesystem
from tests.support.pushes import TOPIC, Pushes
from tests.support.runs_here import Here

COUNTING = "tests.support.carrying_apps:counting"
CLICKS = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


def damaged(files: Filesystem, path: str, look: object) -> list[tuple[str, str, str, bool]]:
    """Return what a look finds while a record is damaged."""
    data = files.read(path)
    files.put(path, b"{")
    found = [
        (name, finding.path, finding.what, finding.serious)
        for name, findings in look(files)  # type: ignore[operator]
        for finding in findings
    ]
    files.put(path, data)
    return found


def carried(root: Path) -> Here:
    """A root with two runs, each of which has gone on from the state of the one before."""
    here = Here(root)
    rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(6)]
    for name in ("a", "b"):
        here.log.append("clicks", pa.Table.from_pylist(rows, CLICKS), key=["member"], partitions=2)
        here.whole(COUNTING, name)
    return here


def test_every_record_of_a_state_is_looked_at(tmp_path: Path) -> None:
    files = carried(tmp_path).log.filesystem
    assert [findings for _, findings in fsck_state(files)] == [[]]
    paths = [str(path.relative_to(tmp_path)) for path in sorted((tmp_path / "state").rglob("*.json"))]
    assert {path.rpartition("/")[2] for path in paths} >= {"taken.json", "ended.json"}
    for path in paths:
        ((name, place, what, serious),) = damaged(files, path, fsck_state)
        assert (name, place, serious) == (path.split("/")[1], files.location(path), True)
        assert what.startswith("is damaged: ")


def test_a_state_whose_files_are_missing_is_named_with_a_way_back(tmp_path: Path) -> None:
    files = carried(tmp_path).log.filesystem
    for path in (tmp_path / "state").rglob("*"):
        if path.is_file() and path.suffix != ".json":
            path.unlink()
    ((_, findings),) = fsck_state(files)
    assert findings
    for finding in findings:
        assert finding.serious
        assert finding.remedy.endswith("go back to a version that is whole: airflow-samza state reset.")


def test_every_record_of_a_pushed_table_is_looked_at(tmp_path: Path) -> None:
    pushes = Pushes(tmp_path)
    for day in ("monday", "tuesday", "wednesday"):
        pushes.push(day, {1: day})
    expire_versions(pushes.files, pushes.system, "log", TOPIC.name, 1)
    assert [(name, findings) for name, findings in fsck_tables(pushes.files)] == [(f"log.{TOPIC.name}", [])]
    paths = [str(path.relative_to(tmp_path)) for path in sorted((tmp_path / "tables").rglob("*.json"))]
    folders = {path.split("/")[3] for path in paths}
    assert {"versions", "expired"} <= folders
    for path in paths:
        if path.split("/")[3] in ("versions", "expired", "compactions"):
            ((name, place, _, serious),) = damaged(pushes.files, path, fsck_tables)
            assert (name, place, serious) == (f"log.{TOPIC.name}", pushes.files.location(path), True)


@pytest.mark.parametrize("look", [fsck_state, fsck_tables])
def test_a_root_without_any_has_no_findings(tmp_path: Path, look: object) -> None:
    assert list(look(Pushes(tmp_path).files)) == []  # type: ignore[operator]
