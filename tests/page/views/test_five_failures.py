"""Five failures as somebody on call meets them: on the page, in the log of the task, and on a terminal.

Each place has the sentence and what to do in sight after one step. ``ON_CALL_FIGURES=FILE`` keeps how long each took.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.columns import folded
from airflow_samza.provider.failures import LINE
from tests.page.conftest import DAGS
from tests.support.budgets import nightly_but
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.page.conftest import Place
    from tests.page.fab_airflow import FabAirflow
    from tests.page.views.conftest import Watch

pytestmark = [
    pytest.mark.extended,
    pytest.mark.airflow,
    pytest.mark.browser,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
]

WIDTH, HEIGHT = 1440, 900
"""The window of a reader, in CSS pixels: its first screen."""


@dataclass(frozen=True)
class Failure:
    """A failure: the Dag and the application in which it comes, and what a reader has to find.

    ``remedy`` is for readers of Airflow, ``on_terminal`` for those of a terminal, where it differs.
    """

    dag_id: str
    application: str
    sentence: str
    remedy: str
    on_terminal: tuple[str, str] | None = None
    planned: bool = True

    @property
    def task(self) -> str:
        """The task that fails."""
        return "tax" if self.planned else "plan"


FAILURES = {
    "a missing file": Failure(
        "orders_without_file", "without_file", "of stream 'orders'", "Check the root of the system", planned=False
    ),
    "a wrong schema": Failure(
        "orders_of_another_schema", "of_another_schema", "has the column", "Declare 'country' as double", planned=False
    ),
    "a missing connection": Failure(
        "orders_unbound",
        "with_a_bad_record",
        "The connection 'no_such_connection' is not defined",
        "airflow connections add no_such_connection",
        ("'logs'", "--system"),
        planned=False,
    ),
    "a bad record": Failure(
        "orders_with_a_bad_record", "with_a_bad_record", "the order 7 has no country", "Handle such a message"
    ),
    "a killed stage runner": Failure(
        "orders_that_wait",
        "killed_runner",
        "The runner of the stage orders died",
        "If it dies again, look at the memory",
    ),
    "a worker out of memory": Failure(
        "orders_that_devour", "killed_worker", "a Python worker ended without a word", "Give workers more memory"
    ),
}


@dataclass(frozen=True)
class Seen:
    """The way of a reader to cause and remedy, by one step: seconds, and whether both are on the first screen."""

    seconds: float
    first_screen: bool


def seen(began: float, *shown: Locator) -> Seen:
    """Wait until all are visible."""
    for one in shown:
        one.wait_for()
    seconds = round(time.monotonic() - began, 1)
    boxes = [one.bounding_box() for one in shown]
    inside = [box is not None and box["y"] >= 0 and box["y"] + box["height"] <= HEIGHT for box in boxes]
    return Seen(seconds, all(inside))


@pytest.fixture(scope="module")
def figures() -> Iterator[dict[str, dict[str, Seen]]]:
    found: dict[str, dict[str, Seen]] = {name: {} for name in FAILURES}
    yield found
    if file := os.environ.get("ON_CALL_FIGURES"):
        plain = {name: {where: asdict(one) for where, one in places.items()} for name, places in found.items()}
        Path(file).write_text(json.dumps(plain, indent=1))


def kill_runner(root: Path, signals: Path) -> None:
    """Kill the stage runner of the application that waits, once it works."""
    until((signals / "begun").exists, 300)
    (claim,) = root.glob("runs/orders-that-wait/*/servers/*/*/claim.json")
    os.kill(json.loads(claim.read_text())["pid"], signal.SIGKILL)
    (signals / "begun").unlink()


@pytest.fixture(scope="module")
def orders(place: Place) -> None:
    """The inputs of all that fail."""
    orders = place.folder / "logs" / "orders"
    for name in ("good", "numbered"):
        (orders / name).mkdir(parents=True)
    lines = [{"order_id": number, "country": "NL" if number != 7 else ""} for number in range(12)]
    (orders / "good" / "part-0.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    numbered = pa.table({"order_id": pa.array([1], pa.int64()), "country": pa.array([31.5], pa.float64())})
    pq.write_table(numbered, orders / "numbered" / "part-0.parquet")


@pytest.fixture(scope="module")
def failed(airflow: FabAirflow, place: Place, orders: None) -> Iterator[dict[str, str]]:
    """The ids of Dag runs of all that have failed, by the failures' names."""
    signals = place.folder / "signals"
    runs = {name: airflow.trigger(failure.dag_id) for name, failure in FAILURES.items()}
    kill_runner(place.folder / "root", signals)
    for name, failure in FAILURES.items():
        assert airflow.wait_for_run(failure.dag_id, runs[name])["state"] == "failed", name
    yield runs
    (signals / "go").touch()


@pytest.mark.nightly
@pytest.mark.parametrize("name", FAILURES)
def test_the_page_has_cause_and_remedy_in_sight_one_click_from_the_dag_run(
    failed: dict[str, str], airflow: FabAirflow, watch: Watch, figures: dict[str, dict[str, Seen]], name: str
) -> None:
    failure = FAILURES[name]
    with watch(width=WIDTH) as at:
        at.page.goto(f"{airflow.url}/dags/{failure.dag_id}/runs/{failed[name]}")
        tab = at.page.get_by_role("link", name="Samza", exact=True)
        tab.wait_for()
        began = time.monotonic()
        tab.click()
        card = at.page.frame_locator("iframe").locator("article.failure").first
        shown = [card.get_by_text(text).first for text in (failure.sentence, failure.remedy)]
        figures[name]["page"] = found = seen(began, *shown)
        assert found.first_screen
        at.page.goto(f"{airflow.url}/samza/runs/{failure.dag_id}/{failed[name]}")
        card = at.page.locator("article.failure").first
        card.get_by_text("docs/reference/errors.md#").wait_for()
        if failure.planned:
            card.get_by_role("link", name="Preview clear").click()
            at.page.get_by_role("table", name="Effects on the stages").wait_for()
        else:
            card.get_by_role("button", name="Preview clear").click()
            card.get_by_text("No stage of this run has begun").wait_for()
        if folder := os.environ.get("ON_CALL_PICTURES"):
            at.page.screenshot(path=Path(folder) / f"{name.replace(' ', '-')}-page.png")
        assert at.errors == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", FAILURES)
def test_the_log_of_the_task_ends_with_cause_and_remedy_one_click_from_the_dag_run(
    failed: dict[str, str], airflow: FabAirflow, watch: Watch, figures: dict[str, dict[str, Seen]], name: str
) -> None:
    failure = FAILURES[name]
    with watch(width=WIDTH) as at:
        at.page.goto(f"{airflow.url}/dags/{failure.dag_id}/runs/{failed[name]}")
        task = at.page.locator("table").get_by_role("link", name=failure.task, exact=True)
        task.wait_for()
        began = time.monotonic()
        task.click()
        shown = [at.page.get_by_text(text).last for text in (failure.sentence, failure.remedy)]
        figures[name]["log"] = found = seen(began, *shown)
        if folder := os.environ.get("ON_CALL_PICTURES"):
            at.page.screenshot(path=Path(folder) / f"{name.replace(' ', '-')}-log.png")
        assert found.first_screen
    task_id = "orders" if failure.planned else "plan"
    said, _, after = airflow.log(failure.dag_id, failed[name], task_id).rpartition("\n  More: ")
    assert after.splitlines()[1:] in ([], ["::group::Post Execute", "::endgroup::"])
    last = said.rpartition("::endgroup::\n")[2]
    assert [text in " ".join(last.split()) for text in (failure.sentence, failure.remedy)] == [True, True], last
    assert "Traceback" not in last
    assert folded(last, LINE) == last


@pytest.mark.parametrize("name", nightly_but(list(FAILURES)[:4], FAILURES))
def test_a_terminal_ends_with_cause_and_remedy_and_says_them_again_when_asked(
    orders: None, place: Place, figures: dict[str, dict[str, Seen]], name: str
) -> None:
    failure = FAILURES[name]
    root, run_id = place.folder / "cli-root", failure.dag_id
    places = {"logs": place.folder / "logs", "warehouse": place.folder / "warehouse"}
    if name == "a missing connection":
        places.pop("logs")
    systems = [option for system, at in places.items() for option in ("--system", f"{system}=files:{at}")]
    started = subprocess.Popen(
        command("run", f"failing:{failure.application}", "--run-id", run_id, "--root", str(root), *systems),
        cwd=DAGS,
        env={**os.environ, "SAMZA_TEST_SIGNALS": str(place.folder / "signals")},
        stderr=subprocess.PIPE,
        text=True,
    )
    if failure.application == "killed_runner":
        kill_runner(root, place.folder / "signals")
    _, said = started.communicate(timeout=600)
    assert started.returncode in (1, 2)
    ends_with(failure, said)
    began = time.monotonic()
    asked = subprocess.run(
        command("logs", "--errors", run_id, "--root", str(root)), cwd=DAGS, capture_output=True, text=True, check=True
    )
    figures[name]["terminal"] = Seen(round(time.monotonic() - began, 1), len(asked.stdout.splitlines()) <= 24)
    ends_with(failure, asked.stdout)
    assert "  Next: airflow-samza run" in asked.stdout.splitlines()[-1]


def command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).parent / "airflow-samza"), *arguments]


def ends_with(failure: Failure, said: str) -> None:
    """Check that the last lines are the sentence, the hint, and the address of the entry, perhaps the next command."""
    sentence, remedy = failure.on_terminal or (failure.sentence, failure.remedy)
    *_, error, hint, more = [line.strip() for line in said.splitlines() if not line.startswith("  Next: ")]
    assert error.startswith("Error: "), said
    assert sentence in error
    assert hint.startswith("Hint: "), said
    assert remedy in hint
    assert more.startswith("More: docs/reference/errors.md#"), said
