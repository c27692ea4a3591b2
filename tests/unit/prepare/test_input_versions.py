"""Versions of tables up to which a run reads its inputs: what a request may name, and what then stands in the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_samza.errors import ConfigError
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.system import SystemBinding
from tests.support.changing_modules import ChangingModules
from tests.support.runs_here import Here

APPLICATION = """
from airflow_samza import stream_application

@stream_application("copy")
def copy(app):
    views = app.input_stream("views", system="{system}", {more})
    views.send_to(app.output_stream("out", partitions=1, system="log"))
"""


class Copying:
    """A Delta table of three versions, and runs that copy it."""

    def __init__(self, folder: Path, modules: ChangingModules) -> None:
        self.modules = modules
        for number in range(3):
            write_deltalake(folder / "lake" / "views", pa.table({"n": [number]}), mode="append")
        self.here = Here(
            folder / "root",
            bindings={
                "lake": SystemBinding("delta", {"root": str(folder / "lake")}),
                "files": SystemBinding("files", {"root": str(folder)}),
            },
        )

    def plan(self, more: str = 'table="views"', system: str = "lake", **request: Any) -> RunPlan:
        self.modules.write("copying_app", APPLICATION.format(more=more, system=system))
        return self.here.plan("copying_app:copy", str(request.pop("run_id", "run")), **request)


@pytest.fixture
def copying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copying:
    return Copying(tmp_path, ChangingModules(tmp_path, monkeypatch))


@pytest.mark.parametrize(("asked", "version"), [("1", 1), ("0, 1", 1), ("current", 2)])
def test_an_input_is_read_up_to_the_newest_version_that_is_named(asked: str, version: int, copying: Copying) -> None:
    plan = copying.plan(input_versions={"views": asked})
    assert (plan.stream("views").slice or {})["version"] == version
    assert plan.options["input_versions"] == {"views": asked}
    copying.here.stages(plan)
    assert sorted(row["n"] for row in copying.here.rows("out")) == list(range(version + 1))


def test_a_run_is_not_resumed_up_to_another_version(copying: Copying) -> None:
    copying.plan(input_versions={"views": "1"})
    copying.plan()
    with pytest.raises(ConfigError, match=r"other options: --input-version views was 1, and is 0 now"):
        copying.plan(input_versions={"views": "0"})


@pytest.mark.parametrize(
    ("more", "asked", "why"),
    [
        ({}, {"view": "1"}, "no such input"),
        ({}, {"views": "one"}, "has the version 'one', which is no number"),
        ({"more": 'table="views", options={"version": "0"}'}, {"views": "1"}, "has the option version, which says"),
        (
            {"system": "files", "more": 'path="x", format="json", schema="n bigint"'},
            {"views": "1"},
            "lies in a system of kind files, whose streams have no versions",
        ),
    ],
    ids=["unknown input", "no number", "the application says", "no table"],
)
def test_what_has_no_version_is_rejected(
    more: dict[str, str], asked: dict[str, str], why: str, copying: Copying
) -> None:
    with pytest.raises(ConfigError, match=why):
        copying.plan(**more, input_versions=asked)
