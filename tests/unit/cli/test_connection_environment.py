"""Connections of Airflow for the command line: those in its database count, too."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_samza.cli.app import app
from airflow_samza.cli.options import Place

VARIABLE = "_AIRFLOW_PROCESS_CONTEXT"
found: list[str] = []


def look(*_: Any) -> Any:
    """Note where Airflow would look a connection up now, and end the command."""
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    found[:] = [type(backend).__name__ for backend in ensure_secrets_backend_loaded()]
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _outside_of_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")  # so that it is put back afterwards
    monkeypatch.delenv(VARIABLE)
    found.clear()


def test_a_root_of_a_connection_is_looked_up_in_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_samza.provider.hooks.samza.SamzaHook", look)
    with pytest.raises(KeyboardInterrupt):
        _ = Place(conn_id="samza_default").environment
    assert "MetastoreBackend" in found


def test_the_preview_of_a_backfill_looks_connections_up_in_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_samza.provider.backfill.preview.preview_backfill", look)
    CliRunner().invoke(app, ["backfill-preview", "views", "--from", "2026-01-01", "--to", "2026-01-02"])
    assert "MetastoreBackend" in found
