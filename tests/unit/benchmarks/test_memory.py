"""A task needs as much memory for much data as for little: batches stream through it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.extended


ROWS = 100_000


def test_four_times_the_data_takes_no_more_memory() -> None:
    command = [sys.executable, "-m", "benchmarks.memory", str(ROWS), str(4 * ROWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    little, much = map(json.loads, done.stdout.splitlines())
    print(little, much)
    assert (little["read"], much["read"]) == (ROWS, 4 * ROWS)
    assert little["arrow"] < little["bytes"]  # else nothing would be said of streaming
    assert much["arrow"] < 1.25 * little["arrow"]
    assert much["anonymous"] < little["anonymous"] + (much["bytes"] - little["bytes"]) / 4
