"""Rows of Spark Connect.

What is rejected before a server is asked, and what only a real server brings about (``tests/spark/connect``).
"""

from __future__ import annotations

import re

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.systems.system import SystemBinding
from tests.e2e.bad_input.page import ROWS, Row, compare, row
from tests.e2e.bad_input.rows_launch import SUBMIT, _submitted
from tests.e2e.bad_input.scene import APPLICATION, Scene, raised

WRONG_TOKEN = Row("launch", "A token that a Spark Connect server does not accept", "by the stage", None)
STATIC_SQL = Row("launch", "A spark.sql setting that a Spark Connect server made when it started", "by the stage", None)
GOES_AWAY = Row("launch", "A Spark Connect server that goes away", "by the stage", None)

READS_WITH_PASSWORD = Row("launch", "A function that reads with a password over Spark Connect", "by the stage", None)
WRITES_WITH_SECRET = Row(
    "launch", "An output whose secret only a plan of Spark Connect could carry", "by the stage", None
)
OTHER_COLUMNS = Row(
    "launch", "A table of a database with other columns, written over Spark Connect", "by the stage", None
)
SEVERAL_PATHS = Row("launch", "A push of several paths with a secret option over Spark Connect", "by the push", None)


@row("launch", "A setting of the server, asked for over Spark Connect", SUBMIT)
def _(scene: Scene) -> str:
    return _submitted(scene, "sc://127.0.0.1:15002/;token=abc", spark_conf={"spark.executor.memory": "4g"})


@row("plan", "An upsert into a database over Spark Connect", "by `plan`")
def _(scene: Scene) -> str:
    scene.application(
        'views = app.input_stream("views", system="lake", schema="member_id bigint", partitions=1)',
        'members = app.output_stream("members", system="shop", table="members", mode="upsert", key="member_id")',
        "views.send_to(members)",
    )
    scene.views()
    binding = SystemBinding("spark", {"format": "jdbc", "url": "jdbc:postgresql://db/shop"})
    lake = SystemBinding("files", {"root": str(scene.folder / "data")})
    root, systems = str(scene.folder / "samza"), {"lake": lake, "shop": binding}
    runtime = SparkRuntime(root, systems, master="sc://localhost:15002/;token=abc")
    return raised(lambda: runtime.prepare(RunRequest(APPLICATION, "run-1")))


ROWS += [WRONG_TOKEN, STATIC_SQL, GOES_AWAY, READS_WITH_PASSWORD, WRITES_WITH_SECRET, OTHER_COLUMNS, SEVERAL_PATHS]


def compare_with_page(row: Row, text: str) -> None:
    """Sees that the page has the row as a real server brought it about; its port is any."""
    compare(row, re.sub(r"sc://localhost:\d+", "sc://localhost:15002", text))
