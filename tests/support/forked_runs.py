"""Runs in processes that may die.

Children of one that has everything imported and has done nothing, so that each starts at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from airflow_samza.runs.failpoints import VARIABLE

BUSY, FENCED, REJECTED = 3, 4, 5
"""End of a process whose run finds the state held by another, taken over, or gone on from by later runs."""

_PARENT = """
import json, os, sys, traceback
from pathlib import Path
import pyarrow, pyarrow.compute
from airflow_samza.errors import StateBusy, StateError, StateFenced
from tests.support import carrying_apps
from tests.support.runs_here import Here
from tests.support.without_spark import load_all

load_all()

def run(asked):
    try:
        Here(Path(asked["root"])).whole(asked["application"], asked["run_id"], **asked["more"])
    except StateBusy:
        return 3
    except StateFenced:
        return 4
    except StateError:
        return 5
    except BaseException:
        traceback.print_exc()
        return 1
    return 0

for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ.update(asked["environment"])
        os._exit(run(asked))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class ForkedRuns:
    """The parent of the processes.

    :meth:`run` waits for one run, and says how its process ended (negative: by which signal).
    """

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        self._parent = subprocess.Popen(
            [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(
        self, root: Path, application: str, run_id: str, generation: int = 1, *, die_at: str = "", **more: Any
    ) -> int:
        """A run from its plan to its end.

        ``die_at`` is a failpoint, which strikes once per run; ``more`` goes to ``prepare``.
        """
        environment = {VARIABLE: f"{die_at}@{root / f'died-{run_id}-{generation}'}"} if die_at else {}
        asked: dict[str, Any] = {
            "root": str(root),
            "application": application,
            "run_id": run_id,
            "environment": environment,
        }
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps({**asked, "more": {"generation": generation, **more}}) + "\n")
        self._parent.stdin.flush()
        return int(self._parent.stdout.readline())

    def close(self) -> None:
        """Ends the parent."""
        self._parent.communicate(timeout=300)
