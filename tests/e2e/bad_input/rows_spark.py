"""Rows that only Spark can say: of SQL and DataFrames that Catalyst runs.

One application holds all, a stage for each.
"""

from __future__ import annotations

from tests.e2e.bad_input.page import ROWS, Row
from tests.e2e.bad_input.scene import Scene

ROW_OF_STAGE = {
    "unreadable": "SQL that cannot be read",
    "function": "A function that SQL does not have",
    "moment": "A value on which Catalyst fails",
    "wide": "A transform that moves rows between partitions",
    "none": "A transform that returns no DataFrame",
    "raising": "A transform that raises",
}
"""The mistake of each stage; the stages are named after their inputs."""

ROWS += [Row("spark", what, "by the stage", None) for what in ROW_OF_STAGE.values()]

DESCRIPTION = """\
def faster(view: View) -> View:
    return View(view.member_id, view.country, 1000 // (view.dwell_ms - 1500))
def views(name):
    return app.input_stream(name, system="lake", schema=View, path="views")
def out(name):
    return app.output_stream(f"out-{name}", system="lake")
views("unreadable").where("dwell_ms > (1000").send_to(out("unreadable"))
views("function").where("is_prime(dwell_ms)").send_to(out("function"))
views("moment").select("CAST(country AS timestamp) AS moment").send_to(out("moment"))
views("wide").transform(lambda df: df.groupBy("country").count(), schema="country string, n bigint").send_to(out("wide"))
views("none").transform(lambda df: df.show(), schema=View).send_to(out("none"))
views("raising").transform(lambda df: df.na_fill(0), schema=View).send_to(out("raising"))
views("callable").map(faster, id="faster").send_to(out("callable"))
"""


def application(scene: Scene) -> None:
    """Writes the application, and its data."""
    scene.application(*DESCRIPTION.splitlines())
    scene.views()
