"""Puts files under a root as others do at the same moment, and prints those that it won.

``racing_writer.py ROOT TIME FILES NUMBER``.
"""

from __future__ import annotations

import sys
import time

from airflow_samza.systems.filesystems.opening import open_filesystem


def race(root: str, begin: float, files: int, content: bytes) -> list[str]:
    """The names of the files that this process was the first to put."""
    filesystem = open_filesystem(root)
    filesystem.exists("race")  # connected, before the race begins
    time.sleep(max(0.0, begin - time.time()))
    return [f"file-{number}" for number in range(files) if filesystem.put_if_absent(f"race/file-{number}", content)]


if __name__ == "__main__":
    where, at, count, number = sys.argv[1:]
    print(*race(where, float(at), int(count), number.encode() * 1000))
