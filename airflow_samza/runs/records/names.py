"""All names that a run makes: its folders, its topics, its producers, its attempts. Made here and nowhere else.

Airflow's run ids (``scheduled__2026-01-01T00:00:00+00:00``) hold characters that folders and topics of some systems
reject, so every part of a name is made safe the same way.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from functools import lru_cache
from typing import NamedTuple

from airflow_samza.systems.generations import parse_generation

# Long enough for any Airflow run id, short enough for a path part (255 bytes) with a suffix behind it.
MAX_PART = 150


@lru_cache(maxsize=4096)
def safe(text: str) -> str:
    """``text`` as one part of a path or topic name.

    Letters, digits, ``-``, ``_`` and ``.`` only, at most 150 characters.

    Text that had to change ends in a digest of the original, so two different texts never become one.

    >>> safe("manual-1"), safe("scheduled__2026-01-01T00:00:00+00:00")
    ('manual-1', 'scheduled__2026-01-01T00-00-00-00-00-8bc450')
    """
    readable = re.sub(r"[^A-Za-z0-9_.-]", "-", text)
    if readable == text and 0 < len(text) <= MAX_PART and not text.startswith("."):
        return text
    return f"{readable.lstrip('.')[: MAX_PART - 7]}-{_digest(text)}"


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
        """Return the generation that :meth:`__str__` wrote."""
        return cls(*parse_generation(text, numbers=2))


def run_folder(application: str, run_id: str) -> str:
    """The folder of a run under the root."""
    return f"runs/{safe(application)}/{safe(run_id)}"


def state_folder(application: str, app_id: str) -> str:
    """The folder under the root of the state that an application carries from run to run.

    No two pairs have one folder: behind the last ``-`` stands an id that has none, and any other is set off by a dot.

    >>> state_folder("page-views", "1"), state_folder("a", "b-1"), state_folder("a-b", "1")
    ('state/page-views-1', 'state/a.b-1', 'state/a-b-1')
    """
    name, copy = _part(application), _part(app_id)
    return f"state/{name}.{copy}" if "-" in copy else f"state/{name}-{copy}"


def partials_folder(application: str, app_id: str) -> str:
    """The folder under the root of the partial results that runs of an application share, named as that of its state.

    >>> partials_folder("page-views", "1")
    'partials/page-views-1'
    """
    return f"partials/{state_folder(application, app_id).partition('/')[2]}"


KEPT_RESULTS = "kept_results"
"""The key of an input range under which it names the files of partial results, by stage.

It has their ``folder``, and by interval the name for each partition ("": nothing of it lies there). A file holds what
one task sends of one partition of an interval to one topic. Its name is a digest of all that this follows from, so it
is written once, by whoever comes first, and never out of date; who misses it computes it (decision 117).
"""


def partial_path(folder: str, name: str, output: int) -> str:
    """Return the path of what goes to one of a stage's outputs, by its number."""
    return f"{folder}/{name}-{output}.arrow"


def former_state_folder(application: str, app_id: str) -> str:
    """Return the folder of that state in releases in which two applications could have one folder."""
    return f"state/{safe(application)}-{safe(app_id)}"


NAMES = 2
"""Version of the naming of the topics of new runs. 1.

The parts with ``-`` between them, whatever they hold: those of two applications could meet.
"""


def intermediate_topic(
    application: str, app_id: str, stream_id: str, run_id: str, generation: Generation, names: int = NAMES
) -> str:
    """The physical name of a run's own topic.

    The generation is its writer's, so a cleared stage writes to a topic of its own.

    No two streams have one name: where the first ``-1-`` stands between application and stream, the id between them is
    1, and any other name has dots, which no id has. ``names`` is the way in which the run names its topics
    (:data:`NAMES`).

    >>> print(intermediate_topic("page-views", "1", "by-member", "r", Generation(1, 1)))
    page-views-1-by-member/r/1.1
    >>> print(intermediate_topic("a", "b-1-c", "s", "r", Generation(1, 1)))
    a.b-1-c.s/r/1.1
    >>> print(intermediate_topic("a-1-b", "c", "s", "r", Generation(1, 1)))
    a-1-b.c.s/r/1.1
    """
    run = f"{safe(run_id)}/{generation}"
    if names == 1:
        return f"{safe(application)}-{safe(app_id)}-{safe(stream_id)}/{run}"
    name, copy, stream = _part(application), _part(app_id), _part(stream_id)
    plain = f"{name}-{copy}-{stream}"
    if copy == "1" and plain.index("-1-") == len(name):
        return f"{plain}/{run}"
    return f"{name}.{copy}.{stream}/{run}"


def _part(text: str) -> str:
    """``text`` made safe, and without dots, which stand between parts; ids have none, so they stay as they are."""
    part = safe(text)
    return part if "." not in part else f"{part.replace('.', '-')[: MAX_PART - 7]}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def producer_id(application: str, run_id: str, stage_id: str) -> str:
    """Return the name of a writer, which makes a publication unique together with generation and epoch."""
    return f"{safe(application)}/{safe(run_id)}/{safe(stage_id)}"


def task_name(task: int) -> str:
    """The name of task k in control messages."""
    return f"task-{task}"


def writer_name(stage_id: str, generation: Generation, epoch: int, task: int) -> str:
    """A name for what one try at one task writes.

    Unique over all tries of all runs, so that no two ever write one file.
    """
    return f"{safe(stage_id)}-{generation}-{epoch}-{task}-{uuid.uuid4().hex}"
