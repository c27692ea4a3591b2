"""The stage runner on Spark: a session that it asks for while Spark goes away."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.engine import stage_runner
from airflow_samza.errors import ConfigError, StageLost
from airflow_samza.spark import runner
from airflow_samza.systems.filesystems.local import LocalFilesystem

WITHOUT_SPARK = {"master": "spark://host:7077", "log": "runner.log", "conf": {}}


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (RuntimeError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."), StageLost),
        (ConnectionRefusedError(111, "Connection refused"), StageLost),
        (ConfigError("No server at StatusCode.UNAVAILABLE.", hint="Start it."), ConfigError),
        (ValueError("no such setting"), ValueError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_spark_that_goes_away_while_it_starts_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception, seen: type[Exception]
) -> None:
    def open_session(*_: Any) -> Any:
        raise raised

    def run_process(arguments: list[str], open_engine: Any, settings: Mapping[str, Any]) -> int:
        open_engine("app", settings, LocalFilesystem(tmp_path))
        return 0

    monkeypatch.setattr(stage_runner, "run_process", run_process)
    with pytest.raises(seen) as caught:
        runner.main([str(tmp_path), "app", "run", "1"], WITHOUT_SPARK, open_session)
    assert isinstance(caught.value, type(raised)) or caught.value.sentence == "Spark went away while it started."  # type: ignore[attr-defined]
