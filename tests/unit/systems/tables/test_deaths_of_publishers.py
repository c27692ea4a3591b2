"""Publishers of tables that are killed at each step of a publication: the next one leaves each row in the table once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.systems.system import Publication
from tests.support import delta_deaths, iceberg_deaths
from tests.support.budgets import extended_but
from tests.support.iceberg_deaths import Publishers, publishers
from tests.support.table_kinds import KINDS, Output
from tests.support.table_outputs import ids, output_stream

DEATHS: dict[str, Any] = {"iceberg": iceberg_deaths, "delta": delta_deaths}
STEPS = [
    (kind, step)
    for steps in zip(*(DEATHS[kind].STEPS for kind in KINDS), strict=True)
    for kind, step in zip(KINDS, steps, strict=True)
]
ACTS: dict[str, tuple[list[int], dict[str, Any]]] = {
    "append": ([1, 2, 3, 9], {"epoch": 1}),
    "clear": ([3, 9], {"generation": "1.2"}),
    "replace table": ([3], {"run": "other"}),
}


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Path, Publishers]]]:
    """Publishers of each kind, and the folder of their tables."""
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    with (
        publishers(folders["iceberg"], iceberg_deaths.__name__) as iceberg,
        publishers(folders["delta"], delta_deaths.__name__) as delta,
    ):
        yield {"iceberg": (folders["iceberg"], iceberg), "delta": (folders["delta"], delta)}


def made(kind: str, folder: Path, act: str, name: str) -> tuple[Output, Publication]:
    """Return an output with the rows 1 and 2 of a run and 9 of somebody else, and the publication of the row 3."""
    table = f"web.{name.replace(' ', '_')}"
    KINDS[kind].made(folder, table=table, **({"delta.checkpointInterval": "3"} if kind == "delta" else {}))
    output = KINDS[kind](folder, output_stream(table, mode="replace table" if act == "replace table" else "replace"))
    KINDS[kind](folder, output_stream(table)).publish(ids([1, 2]))
    output.foreign({"id": 9, "part": None})
    return output, output.publication(ids([3]), **ACTS[act][1])


@pytest.mark.parametrize("act", extended_but(["clear"], ACTS))
@pytest.mark.parametrize(("kind", "step"), STEPS)
@pytest.mark.few(10, 45)
def test_a_killed_publisher_is_followed_by_one_that_leaves_each_row_once(
    dying: dict[str, tuple[Path, Publishers]], kind: str, step: str, act: str
) -> None:
    wanted, _ = ACTS[act]
    folder, forked = dying[kind]
    output, work = made(kind, folder, act, f"{act} {step}")
    options = dict(output.spec.options)
    assert forked.publish(work, step, **options) == -signal.SIGKILL
    landed = step in DEATHS[kind].LANDED
    assert output.ids() == (wanted if landed else [1, 2, 9])
    others = [10] if kind == "delta" else []  # of who takes the version that the dead one was to write
    for number in others:
        output.foreign({"id": number, "part": None})
    assert forked.publish(work, **options) == 0
    left = wanted if act == "replace table" and not landed else [*wanted, *others]
    assert output.ids() == left
    versions = output.versions()
    assert versions == 3 + len(others)
    output.system.publish(output.spec, work)  # and once more, in a third process
    assert output.ids() == left
    assert output.versions() == versions
    output.publish(ids([5]), epoch=7, run="next")  # which goes on from what the dead one has left
    assert output.ids() == sorted([5, *([] if act == "replace table" else left)])


@pytest.mark.extended
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_deaths_leaves_each_row_once(dying: dict[str, tuple[Path, Publishers]], kind: str) -> None:
    folder, forked = dying[kind]
    output, work = made(kind, folder, "clear", "row of deaths")
    options = dict(output.spec.options)
    steps = DEATHS[kind].STEPS
    for step in steps[: steps.index("after swap") + 1]:
        assert forked.publish(work, step, **options) == -signal.SIGKILL
    assert forked.publish(work, **options) == 0
    assert output.ids() == [3, 9]
    output.publish(ids([4]), generation="1.3")
    assert output.ids() == [4, 9]
