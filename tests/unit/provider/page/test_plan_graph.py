"""The graph of a plan: what it says of the range that a run reads, and its arrows."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza.provider.page.plan_graph import _slice, operator_edges, stage_edges
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.systems.system import StreamSpec
from tests.support.page_here import Page


@pytest.mark.parametrize(
    ("slice_", "shown"),
    [
        (None, {}),
        ({}, {}),
        ({"offsets": [[0, 5], [7, 1207]]}, {"offsets": "1,205"}),
        ({"offsets": [], "files": []}, {"files": "0"}),
        ({"files": [{"path": "a"}] * 1500, "bytes": 2048, "offsets": None}, {"files": "1,500", "bytes": "2.0 KiB"}),
        ({"chunks": 3, "offsets": [[0, 3]], "rows": 1500}, {"rows": "1,500"}),  # offsets of chunks count no messages
        ({"table": "shop.orders", "snapshot": 7, "rows": None}, {"table": "shop.orders", "snapshot": "7"}),
        (
            {"table": "orders", "snapshot": None, "version": 0},
            {"table": "orders", "version": "0"},
        ),  # of Delta the first
        ({"rows": 0, "bytes": 0}, {"rows": "0", "bytes": "0 B"}),
        ({"rows": "many", "bytes": "few"}, {}),
    ],
)
def test_the_range_that_a_run_reads_is_told_by_its_size(slice_: Any, shown: dict[str, str]) -> None:
    bound = BoundStream("visits", "input", "log", StreamSpec("visits"), slice_)
    assert {detail.name: detail.text for detail in _slice(bound)} == shown


def test_arrows_of_operators_pass_through_streams_between_stages(page: Page) -> None:
    plan = page.plan().plan
    edges = {(edge.source, edge.target, edge.kind) for edge in operator_edges(plan)}
    inside = {(source, target) for source, target, kind in edges if kind == "flow"}
    stages = {op_id: stage.stage_id for stage in plan.stages for op_id in stage.operators}
    assert inside
    assert all(stages[source.partition(":")[2]] == stages[target.partition(":")[2]] for source, target in inside)
    through = {(source, target) for source, target, kind in edges if kind == "stream"}
    assert ("stream:visits", f"operator:{plan.stream('visits').readers[0]}") in through
    assert (f"operator:{plan.stream('countries').writers[0]}", "stream:countries") in through


TABLES = """
from airflow_samza import stream_application

VISIT = "country string, email string, n bigint"

@stream_application("visits")
def visits(app):
    changes = app.side_input("changes", system="log", schema="country string, name string", key="country", partitions=2)
    names = app.table("names", key="country", side_inputs=[changes])
    read = app.input_stream("visits", system="log", schema=VISIT, partitions=2, key="country", bounded=True)
    read.send_to(app.local_table("seen", key="country", schema=VISIT))
    read.join(names, lambda visit, name: visit, id="named", schema=VISIT).send_to(app.output_stream("out", system="log"))
"""


def test_tables_have_arrows_from_what_fills_them_to_what_looks_them_up(page: Page, tmp_path: Any) -> None:
    (tmp_path / "page_app.py").write_text(TABLES, encoding="utf-8")
    page.here.log.create([StreamSpec("changes", 2, "country string, name string", ("country",))])
    plan = page.plan().plan
    (stage,) = plan.stages
    at_stages = {(edge.source, edge.target) for edge in stage_edges(plan) if edge.kind == "table"}
    assert ("stream:changes", "table:names") in at_stages
    assert ("table:names", f"stage:{stage.stage_id}") in at_stages
    names, seen = (next(table for table in plan.tables if table.table_id == name) for name in ("names", "seen"))
    at_operators = {(edge.source, edge.target) for edge in operator_edges(plan) if edge.kind == "table"}
    assert ("stream:changes", "table:names") in at_operators
    assert ("table:names", f"operator:{names.readers[0]}") in at_operators
    assert (f"operator:{seen.writers[0]}", "table:seen") in at_operators


DESCRIBED = """
from airflow_samza import stream_application

def checked(visit):
    \"\"\"Return the visit.\"\"\"
    return visit

@stream_application("visits")
def visits(app):
    seen = app.local_table("seen", key="n", schema="country string, n bigint", doc="Visits that were seen.")
    read = app.input_stream("visits", schema="country string, n bigint", key="n", partitions=2, doc="password=secret1")
    read.map(checked).send_to(seen)
"""


def test_nodes_have_their_descriptions_and_lines_of_code(page: Page) -> None:
    (page.here.root.parent / "page_app.py").write_text(DESCRIBED)
    page.plan()
    plan = page.get("plan")
    (stream,), (table,) = plan["streams"], plan["tables"]
    (mapped,) = (operator for operator in plan["operators"] if operator["op"] == "map")
    assert (table["doc"], table["code"]) == ("Visits that were seen.", "page_app.py:10")
    assert (mapped["doc"], mapped["code"]) == ("Return the visit.", "page_app.py:12")
    assert "secret1" not in stream["doc"]
    assert (stream["code"], stream["columns"]) == ("page_app.py:11", "country string, n bigint")
