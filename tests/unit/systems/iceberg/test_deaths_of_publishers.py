"""Publishers that are killed at each step of a publication: the next one leaves each row in the table once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from airflow_samza.systems.made_tables import MadeTable, note_made
from airflow_samza.systems.system import Publication
from tests.support.budgets import extended_but
from tests.support.iceberg_deaths import LANDED, STEPS, Publishers, publishers
from tests.support.iceberg_lake import append, table_of
from tests.support.iceberg_outputs import Output, ids, output_stream

SCHEMA = Schema(NestedField(1, "id", LongType()))
ACTS = {
    "append": ([1, 2, 3, 9], {"epoch": 1}),
    "clear": ([3, 9], {"generation": "1.2"}),
    "replace table": ([3], {"run": "other"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def dying(folder: Path) -> Iterator[Publishers]:
    with publishers(folder) as found:
        yield found


def made(folder: Path, act: str, name: str) -> tuple[Output, Publication]:
    """Return an output with the rows 1 and 2 of a run and 9 of somebody else, and the publication of the row 3."""
    table = f"web.{name.replace(' ', '_')}"
    created = table_of(folder, SCHEMA, name=table)
    note_made(f"{folder}.root", str(created.metadata.table_uuid), MadeTable("iceberg", table, created.location()))
    output = Output(folder, output_stream(table, mode="replace table" if act == "replace table" else "replace"))
    Output(folder, output_stream(table)).publish(ids([1, 2]))
    created.refresh()
    append(created, ids([9]))
    return output, output.publication(ids([3]), **ACTS[act][1])  # type: ignore[arg-type]


@pytest.mark.parametrize("act", extended_but(["clear"], ACTS))
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.few(5, 20)
def test_a_killed_publisher_is_followed_by_one_that_leaves_each_row_once(
    folder: Path, dying: Publishers, step: str, act: str
) -> None:
    wanted, _ = ACTS[act]
    output, work = made(folder, act, f"{act} {step}")
    options = dict(output.spec.options)
    assert dying.publish(work, step, **options) == -signal.SIGKILL
    assert output.ids() == (wanted if step in LANDED else [1, 2, 9])
    assert dying.publish(work, **options) == 0
    assert output.ids() == wanted
    snapshots = [one.snapshot_id for one in output.table().snapshots()]
    assert len(snapshots) == 3
    output.system.publish(output.spec, work)  # and once more, in a third process
    assert output.ids() == wanted
    assert [one.snapshot_id for one in output.table().snapshots()] == snapshots


@pytest.mark.extended
def test_a_row_of_deaths_leaves_each_row_once(folder: Path, dying: Publishers) -> None:
    output, work = made(folder, "clear", "row of deaths")
    options = dict(output.spec.options)
    for step in STEPS[: STEPS.index("after swap") + 1]:
        assert dying.publish(work, step, **options) == -signal.SIGKILL
    assert dying.publish(work, **options) == 0
    assert output.ids() == [3, 9]
    output.publish(ids([4]), generation="1.3")
    assert output.ids() == [4, 9]
