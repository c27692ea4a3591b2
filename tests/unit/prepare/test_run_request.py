"""The value that asks for a run, and what a plan keeps of it."""

from __future__ import annotations

import pytest

from airflow_samza.prepare.run_request import RunRequest, option_fields
from airflow_samza.runs.records.data_interval import DataInterval


@pytest.mark.parametrize("choice", ["previous", "lineage"])
def test_lineage_is_another_name_of_the_previous_state(choice: str) -> None:
    assert RunRequest("m:a", "one", state_from=choice) == RunRequest("m:a", "one")
    assert RunRequest("m:a", "one", state_from=choice).state_from == "previous"


def test_options_are_texts_and_hold_every_flag() -> None:
    request = RunRequest(
        "m:a",
        "one",
        config={"a": "1"},
        interval=DataInterval.from_iso("2026-01-01T01:00+01:00", "2026-01-01T02:00+01:00"),
        tables={"tiers": "push-1"},
    )
    assert (
        request.options().items()
        >= {
            "config": {"a": "1"},
            "interval": "2026-01-01T00:00:00+00:00/2026-01-01T01:00:00+00:00",
            "mode": None,
            "state_from": "previous",
            "sections": {},
            "tables": {"tiers": "push-1"},
        }.items()
    )
    assert {option.metadata["flag"] for option in option_fields()} >= {
        "--config",
        "--interval",
        "--mode",
        "--state-from",
        "--section",
        "--table",
    }
