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

PLACES = (
    "before-intent",
    "after-intent",
    "task-before-output",
    "task-before-state",
    "task-before-manifest",
    "task-after-manifest",
    "before-commit",
    "after-commit",
    "after-first-publish",
    "after-epoch",
    "before-result",
    "after-result",
)
"""Every place that is reached in the life of a stage, in order; all up to ``after-epoch`` in each of its epochs.

``task-before-state`` only where a task has state to keep, ``after-epoch`` only where another epoch follows.
"""

STATE_PLACES = (
    "state-before-lease",
    "state-after-lease",
    "state-after-files",
    "state-before-version",
    "state-after-end",
    "state-after-version",
)
"""Every place in the life of a run that carries state on, beside its stages'.

When it is planned, and when it leaves a version.
"""

HELD_PLACES = ("held-after-decision", "after-first-publish", "held-before-note")
"""Every place in the publication of output that was approved, in order."""

PUSH_PLACES = (
    "push-after-staging-began",
    "push-task-before-manifest",
    "push-task-after-manifest",
    "push-before-publish",
    "push-after-publish",
    "push-after-version",
)
"""Every place in the life of a table push, in order."""

COMPACTION_PLACES = (
    "compaction-before-staging",
    "compaction-task-after-record",
    "compaction-before-publish",
    "compaction-after-publish",
    "compaction-after-record",
)
"""Every place in the life of the compaction of a pushed table, in order."""

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
