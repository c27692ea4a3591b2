"""Publishers of Delta tables that are killed at each step, with a foreign writer behind: each row is there once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.systems.system import Publication
from tests.support.budgets import extended_but
from tests.support.delta_deaths import LANDED, STEPS
from tests.support.delta_outputs import Output, made_output
from tests.support.iceberg_deaths import Publishers, publishers
from tests.support.iceberg_outputs import ids, output_stream

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
    with publishers(folder, "tests.support.delta_deaths") as found:
        yield found


def made(folder: Path, act: str, name: str) -> tuple[Output, Publication]:
    """Return an output with the rows 1 and 2 of a run and 9 of somebody else, and the publication of the row 3."""
    table = f"web.{name.replace(' ', '_')}"
    made_output(folder, table=table, **{"delta.checkpointInterval": "3"})
    output = Output(folder, output_stream(table, mode="replace table" if act == "replace table" else "replace"))
    Output(folder, output_stream(table)).publish(ids([1, 2]))
    output.foreign({"id": 9, "part": None})
    return output, output.publication(ids([3]), **ACTS[act][1])  # type: ignore[arg-type]


@pytest.mark.parametrize("act", extended_but(["clear"], ACTS))
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.few(5)
def test_a_killed_publisher_is_followed_by_one_that_leaves_each_row_once(
    folder: Path, dying: Publishers, step: str, act: str
) -> None:
    wanted, _ = ACTS[act]
    output, work = made(folder, act, f"{act} {step}")
    options = dict(output.spec.options)
    assert dying.publish(work, step, **options) == -signal.SIGKILL
    assert output.ids() == (wanted if step in LANDED else [1, 2, 9])
    replaced = act == "replace table" and step not in LANDED
    output.foreign({"id": 10, "part": None})  # who takes the version that the dead one was to write
    assert dying.publish(work, **options) == 0
    assert output.ids() == (wanted if replaced else [*wanted, 10])
    version = output.table().version()
    assert version == 4
    output.system.publish(output.spec, work)  # and once more, in a third process
    assert output.table().version() == version
    output.publish(ids([5]), epoch=7, run="next")  # which goes on from a log that the dead one has left
    assert output.ids() == sorted([5, *([] if act == "replace table" else [*wanted, 10])])


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
