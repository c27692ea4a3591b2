"""Outputs that got another name, or were taken away, when their run was planned anew: rows are of run and slot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemBinding, SystemStreamPartition
from tests.support import delta_lake, iceberg_lake, owned_apps
from tests.support.iceberg_lake import rows_of, stream, system_at
from tests.support.runs_here import Here
from tests.support.slot_runs import days

APPLICATION = "tests.support.owned_apps:owning"
MODES = (None, "append", "replace partitions", "replace table")


class Place:
    """A place of outputs, in one system."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        bindings = {
            "lake": SystemBinding("files", {"root": str(folder / "lake")}),
            "tables": SystemBinding(kind, {"root": str(folder / "tables")}),
        }
        self.here = Here(folder / "root", bindings=bindings)

    def input(self, *numbers: int) -> None:
        place = self.folder / "lake" / "in" / "2013-01-01.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(json.dumps({"id": one, "part": f"p{one % 2}"}) + "\n" for one in numbers))

    def run(self, mode: str | None, *outputs: tuple[str, str], dated: bool = True) -> None:
        """Plan the run, anew if it was planned before, and run it."""
        made: dict[str, Any] = {"system": "tables", "mode": mode}
        made |= (
            {"path": "out"} if self.kind == "files" else {"table": "web.out", "create": True, "partition_by": "part"}
        )
        owned_apps.OUTPUTS[:] = [(name, where, made) for name, where in outputs]
        plan = self.here.plan(APPLICATION, "run", plans_anew=True, **({"interval": days(1)} if dated else {}))
        self.here.stages(plan)
        self.here.runtime.close(plan)

    def compact(self) -> None:
        """Put all rows of the table into one file, as others do."""
        folder = self.folder / "tables"
        if self.kind == "iceberg":
            with iceberg_lake.catalog_at(folder) as catalog:
                iceberg_lake.compact(catalog.load_table("web.out"))
        else:
            DeltaTable(str(folder / "web/out")).optimize.z_order(["id"])

    def rows(self) -> list[int]:
        folder = self.folder / "tables"
        if self.kind == "iceberg":
            return sorted(row["id"] for row in rows_of(system_at(folder), stream("web.out")))
        if self.kind == "delta":
            return sorted(row["id"] for row in delta_lake.rows_of(delta_lake.system_at(folder), stream("web.out")))
        system = FilesSystem("lake", SystemBinding("files", {"root": str(folder)}))
        read = StreamSpec("out", schema="id bigint, part string", path="out")
        found = system.consumer(read).read(SystemStreamPartition("lake", "out", 0), None)
        return sorted(n for run in found if isinstance(run, MessageRun) for n in run.batch.column("id").to_pylist())


@pytest.fixture(autouse=True)
def _outputs() -> Iterator[None]:
    yield
    owned_apps.OUTPUTS.clear()


CASES = [(kind, mode) for kind in ("iceberg", "delta") for mode in MODES] + [("files", None), ("files", "append")]


@pytest.mark.parametrize(("kind", "mode"), CASES)
def test_a_run_planned_anew_replaces_what_it_wrote_under_another_name(
    kind: str, mode: str | None, tmp_path: Path
) -> None:
    place = Place(tmp_path, kind)
    place.input(1, 2, 3)
    place.run(mode, ("former", "true"))
    place.input(1, 2, 4)
    place.run(mode, ("later", "true"))
    assert place.rows() == [1, 2, 4]


@pytest.mark.parametrize(("kind", "mode"), CASES)
def test_a_run_planned_anew_replaces_what_it_wrote_by_an_output_that_is_gone(
    kind: str, mode: str | None, tmp_path: Path
) -> None:
    place = Place(tmp_path, kind)
    place.input(1, 2, 3)
    place.run(mode, ("odd", "id % 2 = 1"), ("even", "id % 2 = 0"))
    assert place.rows() == [1, 2, 3]
    place.run(mode, ("odd", "id % 2 = 1"))
    assert place.rows() == [1, 3]


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_renamed_output_whose_rows_nobody_can_tell_any_more_is_rejected_before_it_adds_to_them(
    kind: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, kind)
    place.input(1, 2, 3)
    place.run("replace", ("odd", "id % 2 = 1"), ("even", "id % 2 = 0"))
    place.compact()
    with pytest.raises(TopicError, match="they were compacted"):
        place.run("replace", ("rest", "id % 2 = 1"), ("even", "id % 2 = 0"))
    assert place.rows() == [1, 2, 3]
