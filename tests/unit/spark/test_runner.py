"""The stage runner on Spark: a session that it asks for while Spark goes away."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.engine import stage_runner
from airflow_samza.errors import ConfigError, SamzaError, StageFailed, StageLost
from airflow_samza.spark import runner
from airflow_samza.systems.filesystems.local import LocalFilesystem
from tests.support.stand_ins import Session

WITHOUT_SPARK = {"master": "spark://host:7077", "log": "runner.log", "conf": {}}


GONE = "Spark went away while it started."
OURS = ConfigError("No server at StatusCode.UNAVAILABLE.", hint="Start it.")


def open_engine_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process of a runner open its engine, and do nothing else."""

    def run_process(arguments: list[str], open_engine: Any, settings: Mapping[str, Any]) -> int:
        open_engine("app", settings, LocalFilesystem(root))
        return 0

    monkeypatch.setattr(stage_runner, "run_process", run_process)


def test_the_log_says_how_long_spark_took_to_come_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "airflow_samza.runner")
    open_engine_at(tmp_path, monkeypatch)
    assert runner.main([str(tmp_path), "app", "run", "1"], WITHOUT_SPARK, lambda *_: Session()) == 0
    assert [line.partition(" after ")[0] for line in caplog.messages] == ["Spark is up"]


def test_who_tries_again_after_a_warm_runner_has_failed_has_a_spark_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def failing(*_: Any) -> Any:
        asked.append("lent")
        raise StageFailed("Spark does not start: no room")

    def opens(*_: Any) -> Session:
        asked.append("own")
        return Session()

    def run_process(arguments: list[str], open_engine: Any, settings: Mapping[str, Any]) -> int:
        engine = open_engine("app", settings, LocalFilesystem(tmp_path))
        with pytest.raises(StageFailed, match="no room"), engine.driver.stage_session({}, own=False):
            pass
        with engine.driver.stage_session({}, own=False):
            return 0

    monkeypatch.setattr(stage_runner, "run_process", run_process)
    monkeypatch.setattr(runner, "may_run_beside", lambda _: True)
    monkeypatch.setattr(runner, "fork_task_forker", lambda **_: object())
    monkeypatch.setattr(runner, "open_session", opens)
    assert runner.main([str(tmp_path), "app", "run", "1"], {**WITHOUT_SPARK, "master": "local[2]"}, failing) == 0
    assert asked == ["lent", "own"]


@pytest.mark.parametrize(
    ("raised", "kind", "sentence"),
    [
        (RuntimeError("a.B: Cannot call methods on a stopped SparkContext."), StageLost, GONE),
        (ConnectionRefusedError(111, "Connection refused"), StageLost, GONE),
        (OURS, ConfigError, OURS.sentence),
        (ValueError("no such setting"), StageFailed, "Spark does not start: ValueError: no such setting"),
    ],
    ids=["stopped", "no connection", "ours", "another"],
)
def test_a_spark_that_goes_away_while_it_starts_is_lost(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    raised: Exception,
    kind: type[SamzaError],
    sentence: str,
) -> None:
    def open_session(*_: Any) -> Any:
        raise raised

    open_engine_at(tmp_path, monkeypatch)
    with pytest.raises(kind) as caught:
        runner.main([str(tmp_path), "app", "run", "1"], WITHOUT_SPARK, open_session)
    assert (type(caught.value), caught.value.sentence) == (kind, sentence)
    assert ("Spark does not start" in caplog.messages) is (raised is not OURS)
