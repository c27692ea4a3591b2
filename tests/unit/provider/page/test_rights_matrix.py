"""The matrix of rights in the page's documentation is that of its routes, which ``tests/page`` asks as real users."""

from __future__ import annotations

from pathlib import Path

from airflow_samza.provider.page import rights
from tests.page.conftest import ROUTES
from tests.page.test_rights import needs, statuses

DOCUMENT = Path(__file__).parents[4] / "docs" / "operate/airflow-page.md"

BESIDES = {rights.may_read_logs: "task logs", rights.may_read_rows: "XComs"}


def test_the_matrix_has_every_route_with_its_rights_and_statuses() -> None:
    text = DOCUMENT.read_text(encoding="utf-8").partition("### The matrix of rights")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    rows = {cells[0]: cells[1:] for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)}
    wanted = {}
    for path, route in ROUTES.items():
        besides = [name for right, name in BESIDES.items() if needs(route, right)]
        of_run = ["runs"] if "{dag_id}" in path else []
        codes = [str(code) for code in statuses(route).values()]
        wanted[f"`{route.operation_id}`"] = [", ".join(of_run + besides) or "–", *codes]
    assert rows == wanted, "\n".join(f"| {name} | {' | '.join(cells)} |" for name, cells in wanted.items())
