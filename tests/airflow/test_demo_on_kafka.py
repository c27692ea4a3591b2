"""The demonstration on Kafka, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.extended,
    pytest.mark.airflow,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.nightly,
    pytest.mark.timeout(1800),
]

REPOSITORY = Path(__file__).parents[2]


def test_the_demo_backfills_a_day_of_a_topic_backwards_and_each_hour_is_the_models(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("d")  # short: sockets of warm runners lie below it
    ended = subprocess.run(
        [sys.executable, "-m", "demo", "--kafka", "--home", str(home)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=1700,
    )
    told = ended.stdout
    print(told)  # nightly: how long it took
    assert ended.returncode == 0, told + ended.stderr
    assert "336,776 messages in 3 partitions" in told
    assert "began in this order: 23 22 21" in told
    assert "Equal: 945 flights of 2013-12-30, 24 hours." in told
