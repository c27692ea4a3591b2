"""Views of a run that holds state and reads a pushed table, and then begins to work; links that a user follows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from tests.page.views.conftest import shown
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.page.views.conftest import Tiers, Watch

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.airflow,
    pytest.mark.browser,
    pytest.mark.spark,
    pytest.mark.timeout(1200),
]


def follow(link: Locator) -> Page:
    """Return the page that a click opens: in the same tab, or in one of its own."""
    page = link.page
    before, tabs = page.url, len(page.context.pages)
    link.click()
    for _ in range(300):
        if len(page.context.pages) > tabs:
            page.context.pages[-1].wait_for_url(lambda url: url != "about:blank")
            return page.context.pages[-1]
        if page.url != before:
            return page
        page.wait_for_timeout(100)
    raise AssertionError(f"The link leads nowhere from {before}.")


def in_names(run_id: str) -> str:
    """Return the id of a Dag run as it stands in the id of a run under the root."""
    return re.sub("[:+]", "-", run_id)


def test_a_table_has_its_versions_and_the_run_that_reads_an_old_one(tiers: Tiers, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{tiers.page(tiers.second)}#/data")
        rows = shown(at.page, "Versions of tiers")
        assert [(row[0].split(), row[1], row[2]) for row in rows] == [
            (["2", "current"], "full", "3"),
            (["1"], "full", "2"),
        ]
        assert [row[-1] for row in rows] == ["", f"member-tiers · {tiers.second}"]
        heading = at.page.get_by_role("region", name="Table tiers").get_by_role("heading")
        assert "reads version 1; current is 2" in heading.inner_text()
        at.page.get_by_role("link", name=f"member-tiers · {tiers.second}").click()
        at.page.get_by_role("tab", name="Progress").wait_for()
        assert unquote(at.page.url).partition("#")[0] == tiers.page(tiers.second)


def test_state_has_its_versions_and_the_run_that_holds_it(tiers: Tiers, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{tiers.page(tiers.second)}#/data")
        (version,) = shown(at.page, "Versions of the state")
        assert version[0] == "1"
        assert in_names(tiers.first) in version[3]
        assert version[5] == "9"
        held = at.page.get_by_text(re.compile("^run .*, fence "))
        assert in_names(tiers.second) in held.inner_text()


def test_a_run_that_an_asset_event_has_started_is_a_link(tiers: Tiers, watch: Watch) -> None:
    tiers.airflow.wait_until(lambda: tiers.airflow.runs("after_tiers"), 120, "the run of after_tiers")
    (started,) = tiers.airflow.runs("after_tiers")
    with watch() as at:
        at.page.goto(f"{tiers.page(tiers.first)}#/results")
        link = at.page.get_by_role("table", name="Asset events").get_by_role("link")
        assert link.inner_text().strip() == f"after_tiers · {started['dag_run_id']}"
        reached = follow(link)
        assert unquote(reached.url).partition("?")[0].endswith(f"/dags/after_tiers/runs/{started['dag_run_id']}")
        reached.get_by_text("after_tiers").first.wait_for()


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("Samza", lambda page: page.get_by_role("heading", name="Stage by-tier")),
        ("Runner's log", lambda page: page.locator("pre.log")),
        ("Output", lambda page: page.get_by_role("table", name="Outputs").get_by_text("tiered-visits")),
    ],
    ids=["page", "log", "output"],
)
def test_a_link_of_a_task_leads_to_its_view(tiers: Tiers, watch: Watch, name: str, shows: object) -> None:
    with watch(width=1400) as at:
        at.page.goto(f"{tiers.airflow.url}/dags/member_tiers/runs/{tiers.first}/tasks/by-tier/details")
        link = at.page.get_by_role("link", name=name, exact=True)
        reached = follow(link.and_(at.page.locator("a[type=button]")))  # there is a tab "Samza", too
        frame = reached.frame_locator("iframe") if "/plugin/" in reached.url else reached
        shows(frame).first.wait_for()  # type: ignore[operator]


def test_the_log_of_a_runner_is_followed_while_it_works(tiers: Tiers, watch: Watch) -> None:
    """Comes last: it lets the run go on."""
    with watch() as at:
        at.page.goto(f"{tiers.page(tiers.second)}#/results")
        at.page.get_by_text("No stage runner has started yet.").wait_for()
        tiers.open_gate()
        log = at.page.locator("pre.log")
        log.wait_for(timeout=240_000)
        first = log.inner_text()
        assert at.page.get_by_role("checkbox", name="Follow").is_checked()
        assert tiers.airflow.wait_for_run("member_tiers", tiers.second)["state"] == "success"
        until(lambda: len(log.inner_text()) > len(first), 60)  # the page's policy forbids texts as scripts
        assert log.inner_text().startswith(first[:200])
        at.page.get_by_role("tab", name="Progress").click()
        at.page.get_by_text("Final", exact=True).wait_for()
        assert at.errors == []
