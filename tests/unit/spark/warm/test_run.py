"""The errors of a warm runner that its run hears of: a Spark that does not start, one that goes away, one of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError, SamzaError, StageFailed, StageLost
from airflow_samza.launch.warm.places import WarmPlace
from airflow_samza.spark.warm.run import failure_of

OURS = ConfigError("No server at StatusCode.UNAVAILABLE.", hint="Start it.")
GONE = "Spark went away while it started."


@pytest.mark.parametrize(
    ("raised", "what", "kind", "sentence"),
    [
        (RuntimeError("Answer from Java side is empty"), "start", StageLost, GONE),
        (ConnectionRefusedError(111, "Connection refused"), "start", StageLost, GONE),
        (ValueError("no such setting"), "start", StageFailed, "Spark does not start: ValueError: no such setting"),
        (OURS, "start", ConfigError, OURS.sentence),
        (ValueError("hush"), "clean", StageLost, "The warm runner 1-a is not well: ValueError."),
    ],
    ids=["killed", "no connection", "another", "ours", "later"],
)
def test_a_java_that_is_killed_while_it_starts_is_a_lost_spark(
    tmp_path: Path, raised: Exception, what: str, kind: type[SamzaError], sentence: str
) -> None:
    failure = failure_of(raised, what, WarmPlace(str(tmp_path / "1-a")))
    assert (type(failure), failure.sentence) == (kind, sentence)
