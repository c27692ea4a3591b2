"""Log lines of librdkafka: not line after line of one trouble."""

from __future__ import annotations

import logging

import pytest

from airflow_samza.systems.kafka import clients
from airflow_samza.systems.kafka.clients import Sparing


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> logging.Logger:
    found = logging.getLogger("test.lines")
    found.addFilter(Sparing())
    return found


def test_lines_that_differ_in_numbers_only_come_once(lines: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(5):
        lines.warning("Connect to 127.0.0.1:9092 failed (after %d ms)", number)
    lines.warning("Coordinator load in progress")
    assert [record.getMessage() for record in caplog.records] == [
        "Connect to 127.0.0.1:9092 failed (after 0 ms)",
        "Coordinator load in progress",
    ]


def test_a_line_comes_again_when_its_time_is_over(
    lines: logging.Logger, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "SECONDS", 0.0)
    for _ in range(2):
        lines.warning("Connect failed")
    assert len(caplog.records) == 2
