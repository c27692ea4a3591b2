"""The page on HDFS: its example runs as it stands, on a real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.documentation_pages import examples

if TYPE_CHECKING:
    from demo.hdfs import Hdfs

pytestmark = [pytest.mark.extended, pytest.mark.hdfs]


def test_the_example_writes_a_topic_to_a_real_one(cluster: Hdfs, place: str) -> None:
    scope: dict[str, Any] = {"__name__": "page"}
    exec(compile(examples("how-to/hadoop.md")["topic.py"], "hadoop.md", "exec"), scope)
    assert scope["write_views"](f"{cluster.webhdfs}{place}") == (["views"], 2)
