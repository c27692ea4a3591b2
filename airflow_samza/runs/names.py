"""All names that a run makes: its folders, its topics, its producers, its attempts. Made here and nowhere else.

Airflow's run ids (``scheduled__2026-01-01T00:00:00+00:00``) hold characters that folders and topics of some systems refuse, so
every part of a name is made safe the same way.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import NamedTuple

from airflow_samza.errors import ConfigError

# Long enough for any Airflow run id, short enough for a path part (255 bytes) with a suffix behind it.
MAX_PART = 150


def safe(text: str) -> str:
    """``text`` as one part of a path or topic name: letters, digits, ``-``, ``_`` and ``.`` only, at most 150 characters.

    Text that had to change ends in a digest of the original, so two different texts never become one.

    >>> safe("manual-1"), safe("scheduled__2026-01-01T00:00:00+00:00")
    ('manual-1', 'scheduled__2026-01-01T00-00-00-00-00-8bc450')
    """
    readable = re.sub(r"[^A-Za-z0-9_.-]", "-", text)
    if readable == text and 0 < len(text) <= MAX_PART and not text.startswith("."):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"{readable.lstrip('.')[: MAX_PART - 7]}-{digest}"


class Generation(NamedTuple):
    """One attempt at a stage's output: ``<plan generation>.<stage generation>``, compared as numbers.

    >>> Generation.parse("1.10") > Generation.parse("1.9"), str(Generation(2, 1))
    (True, '2.1')
    """

    plan: int
    stage: int

    def __str__(self) -> str:
        return f"{self.plan}.{self.stage}"

    @classmethod
    def parse(cls, text: str) -> Generation:
        """The generation that :meth:`__str__` wrote."""
        match = re.fullmatch(r"([1-9]\d*)\.([1-9]\d*)", text)
        if match is None:
            raise ConfigError(
                f"{text!r} is not a generation.",
                hint="A generation is two numbers from 1 with a dot between them, the plan's and the stage's: 1.1.",
                key="generation",
                value=text,
            )
        return cls(int(match[1]), int(match[2]))


def run_folder(application: str, run_id: str) -> str:
    """The folder of a run under the root."""
    return f"runs/{safe(application)}/{safe(run_id)}"


def lineage_folder(application: str, app_id: str) -> str:
    """The folder under the root of the state that an application carries from run to run."""
    return f"state/{safe(application)}-{safe(app_id)}"


def intermediate_topic(application: str, app_id: str, stream_id: str, run_id: str, generation: Generation) -> str:
    """The physical name of a run's own topic: the generation is its writer's, so a cleared stage writes to a topic of its own."""
    return f"{safe(application)}-{safe(app_id)}-{safe(stream_id)}/{safe(run_id)}/{generation}"


def producer_id(application: str, run_id: str, stage_id: str) -> str:
    """Who writes: with generation and epoch it makes a publication unique (DESIGN, "The commit point")."""
    return f"{safe(application)}/{safe(run_id)}/{safe(stage_id)}"


def task_name(task: int) -> str:
    """The name of task k in control messages."""
    return f"task-{task}"


def writer_attempt(stage_id: str, generation: Generation, epoch: int, task: int) -> str:
    """A name for what one try at one task writes; unique over all tries of all runs, so that no two ever write one file."""
    return f"{safe(stage_id)}-{generation}-{epoch}-{task}-{uuid.uuid4().hex}"
