"""A real Airflow with two users of different rights, after a run that succeeded and one that failed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo.browser import open_page
from tests.page.views.fab_airflow import OPERATOR, FabAirflow

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


@pytest.fixture(scope="session")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewed]:
    if not any(found.name == "samza" for found in entry_points(group="airflow.plugins")):
        pytest.fail("The package is installed without its plugin: make setup.")
    place = tmp_path_factory.mktemp("page")
    for name in ("logs/page-views", "warehouse", "root"):
        (place / name).mkdir(parents=True)
    (place / "logs" / "page-views" / "part-00000.json").write_text("".join(json.dumps(view) + "\n" for view in VIEWS))
    folders = {"views_logs": place / "logs", "views_warehouse": place / "warehouse"}
    airflow = FabAirflow(
        place / "home",
        dags=Path(__file__).parent / "dags",
        connections={
            "samza_default": json.dumps({"conn_type": "samza", "extra": {"root": str(place / "root")}}),
            **{n: json.dumps({"conn_type": "fs", "extra": {"path": str(at)}}) for n, at in folders.items()},
        },
        env={"AIRFLOW__SAMZA__POLL_INTERVAL": "0.2"},
    )
    with airflow:
        wide_run_id = airflow.trigger("wide_views")
        assert airflow.wait_for_task("wide_views", wide_run_id, "plan")["state"] == "success"
        run_id, broken_run_id = (airflow.trigger(dag_id) for dag_id in ("page_views", "broken_views"))
        assert airflow.wait_for_run("page_views", run_id)["state"] == "success"
        assert airflow.wait_for_run("broken_views", broken_run_id)["state"] == "failed"
        yield Viewed(airflow, run_id, broken_run_id, wide_run_id)


@dataclass(frozen=True)
class Watched:
    """A page of the browser, and what its console has said that is an error."""

    page: Page
    errors: list[str]


Watch = Callable[..., AbstractContextManager[Watched]]


@pytest.fixture
def watch(viewed: Viewed) -> Watch:
    """Opens a page as a user of Airflow's sees it."""

    @contextmanager
    def watching(user: str = OPERATOR, *, width: int = 1200, dark: bool = False) -> Iterator[Watched]:
        with open_page(width=width, height=900) as page:
            page.set_default_timeout(60_000)
            page.emulate_media(color_scheme="dark" if dark else "light")
            page.context.add_cookies(
                [{"name": "_token", "value": viewed.airflow.token(user), "url": viewed.airflow.url}]
            )
            errors: list[str] = []
            page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            yield Watched(page, errors)

    return watching
