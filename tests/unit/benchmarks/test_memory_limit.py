"""The limit of the nightly run is a real one."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from benchmarks.measuring import memory
from benchmarks.memory_limit import MemoryLimit, MemoryLimitExceeded

HOARD = "import time; held = bytearray(b'x' * (100 << 20)); time.sleep(60)"


def test_who_takes_more_than_allowed_is_killed() -> None:
    limit = MemoryLimit(memory(psutil.Process()) + (60 << 20))
    with pytest.raises(MemoryLimitExceeded, match="are allowed"), limit:
        assert subprocess.run([sys.executable, "-c", HOARD], check=False, timeout=60).returncode == -9
    assert limit.peak > limit.limit


def test_who_takes_less_goes_on() -> None:
    with MemoryLimit(memory(psutil.Process()) + (400 << 20)) as limit:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(0.5)"], check=True)
    assert 0 < limit.peak < limit.limit
