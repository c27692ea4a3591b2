"""Hints in the words of the command line.

Errors come from code that Airflow's tasks run, too, where one clears tasks.
"""

from __future__ import annotations

import functools
import re

from airflow_samza.prepare.publication import OR_CLEAR_IN_AIRFLOW

PLAN_ANEW = "--again"
"""The option that has a run planned anew."""

_WORDS = (
    (re.escape(OR_CLEAR_IN_AIRFLOW), ""),
    (r'\bstate_from="(\w+)"', r"--state-from \1"),
    (r"\b(c)lear them from their plans on\b", "run them again with --again"),
    (r"\b(i)n Airflow clear its plan task, on the command line use run … --again", "run it again with --again"),
    (
        r"\b(c)lear (?:the|its) plan task(?: of [^,;:.]+)?(?: with its downstream(?: tasks)?)?",
        "run it again with --again",
    ),
    (
        r"\b(i)ts plan task has not run: run it first, or clear it with its downstream tasks\.",
        "is this the id of the run?",
    ),
    (r"\b(c)lear (\S+|the run) from its plan on(?: \(on the command line: --again\))?", r"run \2 again with --again"),
    (r"\b(c)lear them with it\b", "run them again with --again"),
    (r"\b(c)lear \S+ (?:\S+ )?(?:together )?with its (?:up|down)stream\b", "run it again with --again"),
    (r"\b(c)lear the stage (?:that|which) (writes|wrote) ", r"run again with --again what \2 "),
    (r"\b(c)lear the stage", "run it again with --again"),
    (r"\b(c)lear its failed tasks", "run it again under its name (--run-id)"),
    (r", or clear it in Airflow", ""),
    (r"\b(s)ubmit it again, or clear it\b", "run it again with the same --run-id, and it goes on"),
    (r"\b(c)lear the task to run it again\b", "run it again with the same --run-id, and it goes on"),
    (r"\b(c)lear (it|them|that run|the run)\b", r"run \2 again with --again"),
)


def on_the_command_line(hint: str) -> str:
    """Return a hint in the words of the command line.

    >>> on_the_command_line("Clear the plan task: a new generation keeps records of its own.")
    'Run it again with --again: a new generation keeps records of its own.'
    """
    for pattern, words in _WORDS:
        hint = re.sub(pattern, functools.partial(_as_begun, words), hint, flags=re.IGNORECASE)
    return hint


def _as_begun(words: str, match: re.Match[str]) -> str:
    command = match.expand(words)
    return command[:1].upper() + command[1:] if match[0][:1].isupper() else command
