"""Places at which the package lets a process die (:mod:`airflow_samza.runs.failpoints`), by what goes on there."""

from __future__ import annotations

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
