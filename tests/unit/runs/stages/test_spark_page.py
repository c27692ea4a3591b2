"""Addresses of Spark's pages, as drivers and settings name them: no other one is put on a task."""

from __future__ import annotations

import pytest

from airflow_samza.runs.stages.spark_page import LONGEST, spark_page

KEPT = {"spark.eventLog.enabled": "true"}


def test_while_the_driver_lives_its_own_page_is_the_link_and_afterwards_its_history() -> None:
    page = spark_page("app-1", "http://driver:4040", {**KEPT, "spark.yarn.historyServer.address": "https://history/"})
    assert page.link() == "http://driver:4040"
    assert page.link(is_over=True) == "https://history/history/app-1"


def test_without_event_logs_there_is_no_history() -> None:
    page = spark_page("app-1", "http://driver:4040", {"spark.yarn.historyServer.address": "history:18080"})
    assert page.link(is_over=True) == "http://driver:4040"


def test_a_page_that_is_off_leaves_the_history() -> None:
    page = spark_page("app-1", None, {**KEPT, "spark.yarn.historyServer.address": "history:18080"})
    assert page.link() == "http://history:18080/history/app-1"


def test_behind_the_masters_proxy_the_page_is_found_there() -> None:
    conf = {"spark.ui.reverseProxy": "true", "spark.ui.reverseProxyUrl": "https://spark.example/"}
    assert spark_page("app-1", "http://10.0.0.1:4040", conf).address == "https://spark.example/proxy/app-1"


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "file:///etc/passwd", "http://", "http://me:hush@host/", "http://h/" + "x" * LONGEST],
)
def test_what_a_browser_should_not_be_sent_to_is_no_page(address: str) -> None:
    assert not spark_page("app-1", address, {}).link()
