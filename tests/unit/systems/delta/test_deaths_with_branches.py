"""Publishers of branches of Delta tables that are killed at each step: each row is there once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import Publication
from tests.support.delta_deaths import STEPS_OF_BRANCHES, STEPS_OF_STAGING
from tests.support.delta_outputs import Output, made_output, waiting_files
from tests.support.iceberg_deaths import Publishers, publishers
from tests.support.slotted import day
from tests.support.table_outputs import ids, output_stream


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def dying(folder: Path) -> Iterator[Publishers]:
    with publishers(folder, "tests.support.delta_deaths") as found:
        yield found


def staged(folder: Path, name: str, slot: OutputSlot | None) -> tuple[Output, Publication]:
    """Return an output on whose branch the rows 3 and 4 wait, beside 1 and 2 of another run of the slot, and 9."""
    table = f"web.{name.replace(' ', '_')}"
    made_output(folder, table=table, **{"delta.checkpointInterval": "3"})
    Output(folder, output_stream(table)).publish(ids([1, 2]), run="former", slot=slot)
    output = Output(folder, output_stream(table, branch="audit"))
    output.foreign({"id": 9, "part": None})
    output.publish(ids([3]), slot=slot, run=name)
    output.publish(ids([4]), slot=slot, run=name, epoch=1)
    return output, Publication(f"app/{name}/stage", "1.1", 0, {})


@pytest.mark.parametrize("step", STEPS_OF_BRANCHES)
@pytest.mark.few(5)
def test_a_killed_publisher_of_a_branch_is_followed_by_one_that_leaves_each_row_once(
    folder: Path, dying: Publishers, step: str
) -> None:
    output, work = staged(folder, f"branch {step}", day(1))
    options = dict(output.spec.options)
    landed = step in STEPS_OF_BRANCHES[STEPS_OF_BRANCHES.index("after swap") :]
    assert dying.publish(work, step, **options) == -signal.SIGKILL
    assert output.ids() == ([3, 4, 9] if landed else [1, 2, 9])
    assert bool(waiting_files(folder, f"branch {step}")) == (step != "after forget")
    output.foreign({"id": 10, "part": None})  # who takes the version that the dead one was to write
    assert dying.publish(work, **options) == 0
    assert output.ids() == [3, 4, 9, 10]
    assert waiting_files(folder, f"branch {step}") == []
    assert output.table().version() == 4
    assert dying.publish(work, **options) == 0
    assert output.table().version() == 4


@pytest.mark.parametrize("step", STEPS_OF_STAGING)
@pytest.mark.few(3)
def test_a_commit_that_was_to_wait_is_there_once_after_a_death(folder: Path, dying: Publishers, step: str) -> None:
    run = f"staging {step}"
    output, of_branch = staged(folder, run, slot=None)
    options = dict(output.spec.options)
    third = output.publication(ids([5]), run=run, epoch=2)
    assert dying.publish(third, step, **options) == -signal.SIGKILL
    assert output.ids() == [1, 2, 9]
    assert dying.publish(third, **options) == 0
    assert dying.publish(of_branch, **options) == 0
    assert output.ids() == [1, 2, 3, 4, 5, 9]
