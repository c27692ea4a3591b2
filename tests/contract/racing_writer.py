"""Puts files under a root as others do at the same moment, and prints those that it won: ``racing_writer.py ROOT TIME FILES NUMBER``."""

from __future__ import annotations

import sys
import time

from airflow_samza.systems.filesystem import open_filesystem

root, begin, files, number = sys.argv[1:]
filesystem = open_filesystem(root)
filesystem.exists("race")  # connected, before the race begins
time.sleep(max(0.0, float(begin) - time.time()))
print(*(f"file-{file}" for file in range(int(files)) if filesystem.put_if_absent(f"race/file-{file}", number.encode() * 1000)))
