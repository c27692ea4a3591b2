"""The demonstration with its root and results in a bucket, as a user runs it, and what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.extended,
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.nightly,
    pytest.mark.timeout(1800),
]

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(("kind", "scheme"), [("s3", "s3"), ("azure", "az")])
def test_the_demo_runs_in_a_bucket_and_shows_what_it_holds_and_cost(kind: str, scheme: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "demo", "--root", kind, "--home", str(tmp_path)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=1700,
    )
    told = ended.stdout
    print(told)  # nightly: what it cost
    assert ended.returncode == 0, told + ended.stderr
    assert "477 rows in all, of 328,521 flights" in told
    assert re.search(rf"the result +{scheme}://flights/warehouse/", told)
    assert re.search(r"samza/topics +\d+ +[\d,]+", told)
    assert re.search(r"[\d,]+ requests in all", told)
    assert not (tmp_path / "samza" / "runs").exists()
