"""Rights on every route of the page, for users of a real Airflow, from the list of routes itself."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest
from fastapi.routing import APIRoute

from airflow_samza.provider.page import rights
from tests.page.conftest import PARAMETERS, ROUTES, address
from tests.page.fab_airflow import FabAirflow

pytestmark = [pytest.mark.extended, pytest.mark.airflow]

OF_DAGS = sorted(path for path in ROUTES if "{dag_id}" in path)

NOTHING_TO_FIND = {"difference", "planClear"}
"""Routes that answer 404 here, because there is one run of each Dag, and it was planned."""


def needs(route: APIRoute, right: Any) -> bool:
    return any(dependency.call is right for dependency in route.dependant.dependencies)


def statuses(route: APIRoute) -> dict[str, int]:
    """Return the status that each kind of user gets from a route about a run of the Dag ``ours``."""
    if "{dag_id}" not in route.path:  # a list of what the user may read
        return {"nobody": 401, "theirs": 200, "limited": 200, "ours": 200}
    more = needs(route, rights.may_read_logs) or needs(route, rights.may_read_rows)
    return {"nobody": 401, "theirs": 403, "limited": 403 if more else 200, "ours": 200}


@pytest.mark.parametrize("path", sorted(ROUTES))
def test_nobody_gets_an_answer_without_a_session(site: FabAirflow, path: str) -> None:
    parameters = PARAMETERS.get(str(ROUTES[path].operation_id), {})
    found = site.get(address(path, "ours"), **parameters)
    assert (found.status_code, found.json()["rule"]) == (statuses(ROUTES[path])["nobody"], "not-signed-in")
    assert site.get(address(path, "ours"), "no-token", **parameters).status_code in (401, 403)


@pytest.mark.parametrize("path", OF_DAGS)
def test_the_run_of_a_dag_is_for_those_who_may_read_it(site: FabAirflow, tokens: dict[str, str], path: str) -> None:
    route = ROUTES[path]
    parameters = PARAMETERS.get(str(route.operation_id), {})
    own = site.get(address(path, "ours"), tokens["ours"], **parameters)
    assert own.status_code == (404 if route.operation_id in NOTHING_TO_FIND else statuses(route)["ours"]), own.text
    other = site.get(address(path, "ours"), tokens["theirs"], **parameters)
    assert (other.status_code, other.json()["rule"]) == (statuses(route)["theirs"], "not-permitted")
    nowhere = site.get(address(path, "~"), tokens["theirs"], **parameters)
    assert nowhere.status_code in (403, 404)


@pytest.mark.parametrize("path", OF_DAGS)
def test_logs_and_rows_need_a_right_of_their_own(site: FabAirflow, tokens: dict[str, str], path: str) -> None:
    route = ROUTES[path]
    assert needs(route, rights.may_read_run)
    found = site.get(address(path, "ours"), tokens["limited"], **PARAMETERS.get(str(route.operation_id), {}))
    more = needs(route, rights.may_read_logs) or needs(route, rights.may_read_rows)
    assert more == (route.operation_id in ("failures", "logs", "samples", "messages"))
    assert found.status_code == (404 if route.operation_id in NOTHING_TO_FIND else statuses(route)["limited"])


def test_a_user_sees_the_runs_of_the_dags_that_are_his(site: FabAirflow, tokens: dict[str, str]) -> None:
    for user in ("ours", "theirs"):
        assert [root["runs"] for root in site.get("/samza/api/roots", tokens[user]).json()["roots"]] == [1]
        found = site.get("/samza/api/roots/samza_default/runs", tokens[user]).json()
        assert [(row["dag_id"], row["state"]) for row in found["runs"]] == [(user, "succeeded")]


def test_airflow_finds_the_plugin_by_its_entry_point() -> None:
    points = importlib.metadata.entry_points(group="airflow.plugins", name="samza")
    assert [point.value for point in points] == ["airflow_samza.provider.page.plugin:SamzaPlugin"]


def test_the_page_itself_may_be_framed_by_airflow_alone(site: FabAirflow) -> None:
    found = site.get("/samza/runs/ours/manual__1")
    assert "frame-ancestors 'self'" in found.headers["Content-Security-Policy"]
    assert found.headers["Content-Type"].startswith("text/html")


@pytest.fixture(scope="session")
def tokens(site: FabAirflow) -> dict[str, str]:
    return {user: site.token(user) for user in ("ours", "theirs", "limited")}
