"""The requests of a small run on an object store stay under a bound, and are on its record."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_samza.cli.app import app
from airflow_samza.systems.filesystems.object_store.requests import KINDS, described
from benchmarks.requests import Measured, measure, table_of
from demo.store_servers import S3Server
from tests.support.runner_without_spark import use_instead

pytestmark = pytest.mark.extended


A_RUN, A_SECOND = 380, 1.5
"""Requests of a run of four stages, and those of each second that it lasts: heartbeats, and looks for what comes.

Measured: 360 in 20 s, 440 in 75 s and 542 in the 225 s of a machine with much else to do.
"""


def test_a_run_of_four_stages_takes_few_requests(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_instead(monkeypatch, tmp_path / "dials")
    found = measure(s3.url("requests"))
    sent = {kind: found.requests.get(kind, 0) for kind in KINDS}
    assert 200 < sum(sent.values()) < A_RUN + A_SECOND * found.seconds, (found.seconds, sent)
    assert sent["PUT"] + sent["LIST"] < 160 + 0.5 * found.seconds, (found.seconds, sent)
    assert sum(found.sweep.get(kind, 0) for kind in KINDS) < 100, found.sweep
    told = CliRunner().invoke(app, ["status", "four-stages", "run-1", "--root", s3.url("requests")])
    assert f"Sent to the root so far: {described(found.requests)}" in told.output


def test_the_table_has_a_line_per_kind_and_the_price_of_a_thousand_runs() -> None:
    lines = table_of(Measured(10.0, {"PUT": 100, "GET": 200}, {"LIST": 20}), {"PUT": 0.005, "GET": 0.0004})
    assert lines[2:] == [
        "| PUT | 100 | 0 | 0.005 | 0.50 |",
        "| GET | 200 | 0 | 0.0004 | 0.08 |",
        "| LIST | 0 | 20 | 0 | 0.00 |",
        "| all | 300 | 20 | | 0.58 |",
    ]
