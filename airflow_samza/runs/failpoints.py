"""Places where a process can be told to die, so that tests can prove that nothing is lost or doubled there.

Nothing happens unless the environment says so: ``AIRFLOW_SAMZA_FAILPOINT=<name>@<file>`` kills the process that first
reaches the named place and can make the file (so each failpoint strikes once); ``<name>*<n>@<file>`` one that reaches
it for the nth time. The stage runner, the finish of stages and pushes, and leases pass them.
"""

from __future__ import annotations

import itertools
import os
import signal

VARIABLE = "AIRFLOW_SAMZA_FAILPOINT"

_times = itertools.count(1)


def reach(name: str) -> None:
    """Dies here, as by ``kill -9``, when the environment asks for it."""
    setting = os.environ.get(VARIABLE)
    if not setting:
        return
    place, _, marker = setting.partition("@")
    place, _, times = place.partition("*")
    if place != name or next(_times) < int(times or 1):
        return
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
