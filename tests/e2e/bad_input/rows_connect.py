"""Rows of Spark Connect.

What is rejected before a server is asked, and what only a real server brings about (``tests/spark/connect``).
"""

from __future__ import annotations

import re

from tests.e2e.bad_input.page import ROWS, Row, compare, row
from tests.e2e.bad_input.rows_launch import SUBMIT, _submitted
from tests.e2e.bad_input.scene import Scene

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


ROWS += [WRONG_TOKEN, STATIC_SQL, GOES_AWAY, READS_WITH_PASSWORD, WRITES_WITH_SECRET, OTHER_COLUMNS, SEVERAL_PATHS]


def compare_with_page(row: Row, text: str) -> None:
    """Sees that the page has the row as a real server brought it about; its port is any."""
    compare(row, re.sub(r"sc://localhost:\d+", "sc://localhost:15002", text))
