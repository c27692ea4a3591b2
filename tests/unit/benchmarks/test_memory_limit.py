"""The limit of the nightly run is a real one.

Each limit is set in a process of its own: it kills all children of the one that sets it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.extended


ROOT = Path(__file__).parents[3]

LIMITED = """
import subprocess, sys
import psutil
from benchmarks.measuring import memory
from benchmarks.memory_limit import MemoryLimit, MemoryLimitExceeded

limit = MemoryLimit(memory(psutil.Process()) + (int(sys.argv[1]) << 20))
try:
    with limit:
        code = subprocess.run([sys.executable, "-c", sys.argv[2]], timeout=60).returncode
except MemoryLimitExceeded as error:
    assert "are allowed" in str(error)
    assert code == -9
    assert limit.peak > limit.limit
    print("exceeded")
else:
    assert code == 0
    assert 0 < limit.peak < limit.limit
    print("kept")
"""


def outcome(megabytes: int, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(megabytes), program], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_who_takes_more_than_allowed_is_killed() -> None:
    assert outcome(60, "import time; held = bytearray(b'x' * (100 << 20)); time.sleep(60)") == "exceeded"


def test_who_takes_less_goes_on() -> None:
    assert outcome(400, "import time; time.sleep(0.5)") == "kept"
