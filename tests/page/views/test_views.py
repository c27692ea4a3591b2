"""The page's views of a real run, in a browser, as its user reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.page.site_setup import STRANGER
from tests.page.views.conftest import shown
from tests.support.budgets import LOOKS

if TYPE_CHECKING:
    from tests.page.views.conftest import Viewed, Watch

pytestmark = [
    pytest.mark.extended,
    pytest.mark.airflow,
    pytest.mark.browser,
    pytest.mark.spark,
    pytest.mark.timeout(1200),
]

TABS = ("plan", "progress", "results", "data", "clear", "backfill")


def test_the_plan_is_a_graph_whose_nodes_show_their_details(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.run}#/plan")
        at.page.get_by_role("heading", name="page-views", level=1).wait_for()
        stage = at.page.locator(".react-flow__node").filter(has_text="by-country").first
        stage.wait_for()
        at.page.get_by_role("button", name="Stages", exact=True).click()
        node = at.page.get_by_label(re.compile("^Stream, by-country, 2 partitions"))
        node.focus()
        node.press("Enter")
        details = at.page.get_by_role("region", name="Details of by-country")
        details.wait_for()
        assert "max of inputs and outputs" in details.inner_text()
        assert at.errors == []


OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll(".react-flow__node")];
  const rects = boxes.filter((box) => !box.querySelector(".frame")).map((box) => box.getBoundingClientRect());
  const tools = [...document.querySelectorAll(".graph-tools button, .react-flow__minimap")];
  const over = (one, other) =>
    one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
  const frame = document.querySelector(".graph").getBoundingClientRect();
  return tools.filter((tool) => over(tool.getBoundingClientRect(), frame)).length
    + rects.filter((rect, at) => rects.some((other, of) => of > at && over(rect, other))).length;
}"""

LETTERS = """() => {
  const scale = new DOMMatrix(getComputedStyle(document.querySelector(".react-flow__viewport")).transform).a;
  return Math.min(...[...document.querySelectorAll(".graph .name span, .graph .line, .graph .traffic")]
    .filter((text) => text.offsetParent !== null)
    .map((text) => parseFloat(getComputedStyle(text).fontSize) * scale));
}"""


@pytest.mark.parametrize("width", [pytest.param(1440, marks=pytest.mark.nightly), 390])
def test_nothing_of_the_graph_is_covered_and_no_letter_is_too_small(viewed: Viewed, watch: Watch, width: int) -> None:
    with watch(width=width) as at:
        for address in (viewed.run, viewed.wide_run):
            at.page.goto(f"{address}#/plan")
            at.page.locator(".react-flow__node").first.wait_for()
            for button in (None, "Zoom in", "Whole graph", "Zoom out"):
                if button is not None:
                    at.page.get_by_role("button", name=button).click()
                assert at.page.evaluate(OVERLAPS) == 0
                assert at.page.evaluate(LETTERS) >= 10.9
        assert at.errors == []


def test_the_keyboard_follows_the_flow_of_messages(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.run}#/plan")
        at.page.get_by_role("button", name="Stages", exact=True).click()
        at.page.get_by_label(re.compile("^Stream, page-views")).focus()
        reached = []
        for key in ("Tab", "Tab", "ArrowRight", "ArrowLeft"):
            at.page.keyboard.press(key)
            at.page.wait_for_timeout(100)
            reached.append(at.page.evaluate("document.activeElement.dataset.id"))
        assert reached == ["stage:page-views", "stream:by-country", "stage:by-country", "stream:by-country"]


def test_a_node_has_its_description_and_its_line_of_code(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.run}#/plan?node=operator:page-views-1-map-rate")
        details = at.page.get_by_role("region", name=re.compile("^Details of"))
        details.wait_for()
        assert "Return the view; a member without a number has no rate." in details.inner_text()
        assert "views.py:" in details.inner_text()


def test_a_run_that_could_not_be_planned_says_why_and_is_in_the_list(viewed: Viewed, watch: Watch) -> None:
    run_id = viewed.airflow.trigger("unbound_views")
    assert viewed.airflow.wait_for_run("unbound_views", run_id)["state"] == "failed"
    with watch() as at:
        at.page.goto(f"{viewed.airflow.url}/samza/runs/unbound_views/{run_id}")
        failed = at.page.get_by_label("Failed plan of views:page_views")
        failed.wait_for()
        assert "no_such_connection" in failed.inner_text()
        assert failed.get_by_role("link", name="Task log").is_visible()
        at.page.goto(f"{viewed.airflow.url}/samza/")
        rows = shown(at.page, "Runs")
        assert [row[1] for row in rows if row[5] == "unbound_views"] == ["Plan failed"]
        assert at.errors == []


def test_the_plan_as_tables_says_why_there_are_so_many_partitions(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.run}#/plan?as=table")
        rows = {row[0]: row for row in shown(at.page, "Streams of the plan")}
        assert rows["by-country"][1:4] == ["Intermediate", "2", "max of inputs and outputs"]
        assert rows["page-views"][3] == "declared"


def test_progress_has_every_stage_and_the_partitions_of_its_inputs(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.run}#/progress?stage=by-country")
        rows = {row[0].split()[0]: row for row in shown(at.page, "Progress of the stages")}
        assert [rows[stage][:2] for stage in ("page-views", "by-country")] == [
            ["page-views (rate)", "Succeeded"],
            ["by-country (count-per-country)", "Succeeded"],
        ]
        assert rows["page-views"][3] == "6"
        assert len(shown(at.page, "Partitions of by-country")) == 2
        ends = shown(at.page, "Inputs of by-country (count-per-country)")[0]
        assert ends[5] == "4 of 4"  # of each of two producers, in each of two partitions


def test_a_page_of_a_run_that_has_ended_asks_no_more(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.run}#/progress")
        at.page.get_by_text("Final", exact=True).wait_for()
        at.page.wait_for_load_state("networkidle")
        asked: list[str] = []
        at.page.on("request", lambda request: asked.append(request.url))
        at.page.wait_for_timeout(6_000)
        assert asked == []


def test_results_have_outputs_bad_records_and_the_log(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.run}#/results")
        rows = {row[0].split("\n")[0].strip(): row for row in shown(at.page, "Outputs")}
        assert rows["views-per-country"][2] == "3"
        bad = shown(at.page, "Bad records by operator")
        assert [row[-1] for row in bad] == ["1"]
        at.page.get_by_role("button", name="Show samples").click()
        assert "is no member" in at.page.get_by_role("list", name="Samples").inner_text()
        at.page.locator("pre.log").wait_for()


def test_a_failure_names_the_function_that_raised(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.broken_run}#/results")
        failure = at.page.get_by_role("article")
        failure.wait_for()
        text = failure.inner_text()
        assert "there are no rates today" in text
        assert "unrated" in text


def test_a_failed_run_opens_on_why_it_has_failed(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(viewed.broken_run)
        why = at.page.get_by_role("region", name="Why the run has failed")
        why.wait_for()
        assert "there are no rates today" in why.inner_text()
        why.get_by_role("link", name="Preview clear").click()
        at.page.wait_for_url(re.compile("#/clear"))
        assert at.errors == []


def test_messages_of_a_topic_are_browsed_and_end_with_control_messages(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.run}#/data")
        topics = {row[0] for row in shown(at.page, "Topics")}
        assert "by-country" in topics
        at.page.get_by_role("link", name="by-country", exact=True).click()
        at.page.get_by_role("spinbutton", name="Partition").fill("1")
        at.page.get_by_role("button", name="Show", exact=True).click()
        at.page.get_by_role("table", name="Messages of partition 1 of by-country").get_by_text(
            "EndOfStream"
        ).first.wait_for()


def test_the_preview_of_a_clear_says_what_runs_again(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.run}#/clear")
        at.page.get_by_role("combobox", name=re.compile("^Clear")).select_option("page-views")
        effects = {row[0]: row[1] for row in shown(at.page, "Effects on the stages")}
        first, second = "page-views (rate)", "by-country (count-per-country)"
        assert effects == {first: "runs again", second: "runs again"}
        at.page.get_by_role("checkbox", name="and the tasks after it").uncheck()
        at.page.get_by_text("must run again", exact=True).wait_for()
        effects = {row[0]: row[1] for row in shown(at.page, "Effects on the stages")}
        assert effects == {first: "runs again", second: "must run again"}


def test_the_preview_of_a_backfill_has_the_slices_of_the_schedule(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.broken_run}#/backfill")
        at.page.get_by_label("First day").fill("2026-01-02")
        at.page.get_by_label("Last day").fill("2026-01-03")
        at.page.get_by_role("button", name="Show", exact=True).click()
        rows = shown(at.page, "Slices of the backfill")
        assert [row[:2] for row in rows] == [
            ["2026-01-02", "nothing"],
            ["2026-01-03", "nothing"],
        ]
        command = "airflow-samza backfill-preview broken_views --from 2026-01-02 --to 2026-01-03"
        at.page.get_by_text(command, exact=True).wait_for()


def test_the_page_of_a_task_begins_with_its_stage(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.airflow.url}/samza/tasks/page_views/{viewed.run_id}/by-country/-1")
        at.page.get_by_role("heading", name="Stage by-country").wait_for()
        assert at.page.url.endswith("#/progress?stage=by-country")


def test_the_page_of_all_runs_leads_to_a_run(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.airflow.url}/samza/")
        rows = {row[0]: row[1] for row in shown(at.page, "Runs")}
        expected = {"page-views": "Succeeded", "broken-views": "Failed", "wide-views": "Running"}
        assert rows.items() >= expected.items()
        at.page.get_by_role("link", name="page-views", exact=True).click()
        at.page.get_by_role("tab", name="Progress").wait_for()


@pytest.mark.nightly
def test_airflow_shows_the_page_in_its_own_theme(viewed: Viewed, watch: Watch) -> None:
    with watch(width=1400) as at:
        at.page.goto(f"{viewed.airflow.url}/dags/page_views/runs/{viewed.run_id}/plugin/samza-run")
        frame = at.page.frame_locator("iframe")
        frame.get_by_role("heading", name="page-views", level=1).wait_for()
        for theme in ("dark", "light"):
            at.page.evaluate("theme => document.documentElement.className = theme", theme)
            frame.locator(f":root[data-theme={theme}]").wait_for()
        frame.get_by_role("tab", name="Progress").click()
        at.page.wait_for_url(re.compile("#/progress"))


def test_of_200_stages_only_what_is_in_sight_is_in_the_document(viewed: Viewed, watch: Watch) -> None:
    with watch() as at:
        at.page.goto(f"{viewed.wide_run}#/progress")
        table = at.page.get_by_role("table", name="Progress of the stages")
        table.wait_for()
        assert table.get_attribute("aria-rowcount") == "201"
        assert table.locator("tbody tr:not(.gap)").count() < 60
        at.page.goto(f"{viewed.wide_run}#/plan")
        at.page.locator(".react-flow__node").first.wait_for()
        assert 0 < at.page.locator(".react-flow__node").count() < 200
        at.page.get_by_role("combobox", name="Find a node by its name").fill("views-07")
        at.page.keyboard.press("Enter")
        details = at.page.get_by_role("region", name=re.compile("^Details of "))
        details.wait_for()
        assert "2,048" in details.inner_text()
        assert at.errors == []


def test_a_user_without_rights_reads_why_nothing_is_shown(viewed: Viewed, watch: Watch) -> None:
    with watch(STRANGER) as at:
        at.page.goto(viewed.run)
        said = at.page.get_by_role("alert")
        said.wait_for()
        assert "right" in said.inner_text()
        assert at.page.get_by_role("tab").count() == 0


@LOOKS
def test_no_view_breaks_a_rule_of_accessibility(viewed: Viewed, watch: Watch, width: int, dark: bool) -> None:
    from importlib.resources import files

    axe = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    with watch(width=width, dark=dark) as at:
        for address in (
            *(f"{viewed.run}#/{tab}" for tab in TABS),
            viewed.broken_run,
            f"{viewed.broken_run}#/backfill?first=2026-01-02&last=2026-01-03",
            f"{viewed.airflow.url}/samza/",
        ):
            at.page.goto("about:blank")
            at.page.goto(address)
            at.page.wait_for_load_state("networkidle")
            at.page.wait_for_selector("h1")  # a busy machine may have loaded all, and shown nothing yet
            at.page.evaluate(axe)
            found = at.page.evaluate("async () => (await axe.run(document)).violations")
            assert [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found] == [], address
            wider = at.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wider <= 0, address
