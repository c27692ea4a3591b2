"""Runs in a real Airflow: one that succeeded, one that failed, one of 200 stages, and one that waits for a pool."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from demo.browser import open_page
from tests.page.conftest import Place
from tests.page.fab_airflow import FabAirflow
from tests.page.site_setup import OPERATOR

if TYPE_CHECKING:
    from playwright.sync_api import Page

collect_ignore = ["dags"]  # Dag files, for Airflow to read

VIEWS = [
    {"member_id": number, "country": country, "email": f"m{number}@example.org"}
    for number, country in enumerate(["NL", "NL", "SE", "NO", "SE", "NL"])
]
"""Six views, of which the first has no member."""


@dataclass(frozen=True)
class Viewed:
    """The Airflow, and the ids of Dag runs: one succeeded, one failed, one of 200 stages has been planned only."""

    airflow: FabAirflow
    run_id: str
    broken_run_id: str
    wide_run_id: str

    @property
    def run(self) -> str:
        """The address of the page of the run that succeeded."""
        return f"{self.airflow.url}/samza/runs/page_views/{self.run_id}"

    @property
    def broken_run(self) -> str:
        """The address of the page of the run that failed."""
        return f"{self.airflow.url}/samza/runs/broken_views/{self.broken_run_id}"

    @property
    def wide_run(self) -> str:
        """The address of the page of the run that has been planned only."""
        return f"{self.airflow.url}/samza/runs/wide_views/{self.wide_run_id}"


def shown(page: Page, label: str) -> list[list[str]]:
    """The rows of a table, by its label."""
    table = page.get_by_role("table", name=label, exact=True)
    table.wait_for()
    return [row.locator("td").all_inner_texts() for row in table.locator("tbody tr").all()]


@pytest.fixture(scope="session")
def airflow(site: FabAirflow) -> FabAirflow:
    """All of the Airflow."""
    if not any(found.name == "samza" for found in entry_points(group="airflow.plugins")):
        pytest.fail("The package is installed without its plugin: make setup.")
    site.start_all()
    return site


@pytest.fixture(scope="session")
def viewed(airflow: FabAirflow, place: Place) -> Viewed:
    views = "".join(json.dumps(view) + "\n" for view in VIEWS)
    (place.folder / "logs" / "page-views" / "part-00000.json").write_text(views)
    wide_run_id = airflow.trigger("wide_views")
    assert airflow.wait_for_task("wide_views", wide_run_id, "plan")["state"] == "success"
    run_id, broken_run_id = (airflow.trigger(dag_id) for dag_id in ("page_views", "broken_views"))
    assert airflow.wait_for_run("page_views", run_id)["state"] == "success"
    assert airflow.wait_for_run("broken_views", broken_run_id)["state"] == "failed"
    return Viewed(airflow, run_id, broken_run_id, wide_run_id)


GATE = {"pool": "gate", "description": "", "include_deferred": False}
"""The fields that the API needs of a pool whose slots change."""


@dataclass(frozen=True)
class Tiers:
    """Two runs of an application with state that read a pushed table: one has ended, the next one waits for the pool.

    Both runs read version 1 of the table. Version 2 was pushed after the second run had been planned.
    """

    airflow: FabAirflow
    first: str
    second: str

    def page(self, run_id: str) -> str:
        """The address of the page of one."""
        return f"{self.airflow.url}/samza/runs/member_tiers/{run_id}"

    def open_gate(self) -> None:
        """Let the stages of the second run."""
        self.airflow.api("PATCH", "/pools/gate", json={**GATE, "slots": 8})


@pytest.fixture(scope="session")
def tiers(airflow: FabAirflow, place: Place) -> Tiers:
    log = LogSystem("log", SystemBinding("log", {"root": str(place.folder / "root")}))

    def visits() -> None:
        ids = pa.array([number % 3 for number in range(9)], pa.int32())
        log.append("member-visits", pa.table({"member_id": ids}), key=["member_id"], partitions=2)

    def push(*members: tuple[int, str]) -> None:
        file = place.folder / f"tiers-{len(members)}.parquet"
        ids, names = zip(*members, strict=True)
        pq.write_table(pa.table({"member_id": pa.array(ids, pa.int32()), "tier": names}), file)
        run_id = airflow.trigger("push_tiers", conf={"source": str(file)})
        assert airflow.wait_for_run("push_tiers", run_id)["state"] == "success"

    airflow.api("POST", "/pools", json={"name": "gate", "slots": 8, "include_deferred": False})
    visits()
    push((0, "gold"), (1, "silver"))
    first = airflow.trigger("member_tiers")
    assert airflow.wait_for_run("member_tiers", first)["state"] == "success"
    airflow.api("PATCH", "/pools/gate", json={**GATE, "slots": 0})
    visits()
    second = airflow.trigger("member_tiers")
    assert airflow.wait_for_task("member_tiers", second, "plan")["state"] == "success"
    push((0, "gold"), (1, "silver"), (2, "gold"))
    return Tiers(airflow, first, second)


@dataclass(frozen=True)
class Watched:
    """A page of the browser, and what its console has said that is an error."""

    page: Page
    errors: list[str]


Watch = Callable[..., AbstractContextManager[Watched]]


@pytest.fixture
def watch(airflow: FabAirflow) -> Watch:
    """Opens a page as a user of Airflow's sees it."""

    @contextmanager
    def watching(user: str = OPERATOR, *, width: int = 1200, dark: bool = False) -> Iterator[Watched]:
        with open_page(width=width, height=900) as page:
            page.set_default_timeout(60_000)
            page.emulate_media(color_scheme="dark" if dark else "light")
            page.context.add_cookies([{"name": "_token", "value": airflow.token(user), "url": airflow.url}])
            errors: list[str] = []
            page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            yield Watched(page, errors)

    return watching
