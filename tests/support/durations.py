"""Seconds that each file of tests takes: who runs the tests begins with the longest, and knows which time is left.

``tests/durations.json`` has them, of files that take more than a second. ``python -m tests.support.durations`` writes it
from the outcomes of the last ``make test`` and ``make test-all``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.support.outcomes import read

_FILE = Path(__file__).parents[1] / "durations.json"
_OTHERS = 0.5
"""Seconds of a file that is not in the list."""


class Durations:
    """Seconds by file of tests."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = json.loads(_FILE.read_text())

    def of(self, file: str) -> float:
        """Return the seconds that a file takes."""
        return self._seconds.get(file, _OTHERS)

    def by_test(self, nodeids: Iterable[str]) -> dict[str, float]:
        """Return the seconds of each test: those of its file, shared equally."""
        tests = defaultdict(list)
        for nodeid in nodeids:
            tests[nodeid.partition("::")[0]].append(nodeid)
        return {nodeid: self.of(file) / len(tests[file]) for file in tests for nodeid in tests[file]}


if __name__ == "__main__":
    totals: defaultdict[str, float] = defaultdict(float)
    for path in (Path("build/tests/test.jsonl"), Path("build/tests/rest.jsonl")):
        for test, outcome in read(path).items():
            totals[test.partition("::")[0]] += outcome.seconds
    listed = {file: round(total, 1) for file, total in sorted(totals.items()) if total > 1}
    _FILE.write_text(json.dumps(listed, indent=1) + "\n")
