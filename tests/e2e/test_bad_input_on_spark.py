"""Errors over bad input that Catalyst alone can tell, compared with docs/reference/errors.md.

And a real stage says what the test driver says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_samza.prepare.run_request import RunRequest
from tests.e2e.bad_input import page
from tests.e2e.bad_input.page import ROWS
from tests.e2e.bad_input.rows_spark import DESCRIPTION, ROW_OF_STAGE, application
from tests.e2e.bad_input.scene import APPLICATION, Scene, raised

pytestmark = pytest.mark.spark

ErrorOf = Callable[[str], str]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        made = Scene(tmp_path_factory.mktemp("bad-input"), monkeypatch)
        application(made)
        yield made


@pytest.fixture(scope="module")
def error_of(scene: Scene) -> Iterator[ErrorOf]:
    """Runs a stage of the one run, in the one Spark that all tests of this file share, to its error."""
    runtime = scene.runtime(idle_seconds=600)
    run = runtime.prepare(RunRequest(APPLICATION, "run-1"))
    yield lambda stage: raised(lambda: runtime.run_stage(run, stage))
    runtime.close(run, succeeded=False, wait_seconds=60)


@pytest.mark.parametrize("stage", ROW_OF_STAGE)
def test_the_page_says_what_spark_says(stage: str, scene: Scene, error_of: ErrorOf) -> None:
    row = next(row for row in ROWS if row.what == ROW_OF_STAGE[stage])
    page.compare(row, page.normalised(error_of(stage), scene.folder))


def test_a_stage_in_spark_says_what_the_test_driver_says(scene: Scene, error_of: ErrorOf) -> None:
    text = error_of("callable")
    assert "ZeroDivisionError" in text
    alone = [
        f"# {line}" if line.startswith("views(") and "callable" not in line else line
        for line in DESCRIPTION.splitlines()
    ]
    scene.application(*alone)  # the lines keep their numbers; what only Spark runs is out of the driver's way
    assert scene.drive(stream="callable") == text
