"""The records that a push leaves on its way to a version of its table.

The stage runner writes them, and checks of a root read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.records import durable
from airflow_samza.runs.records.expectations import Checked


@durable("intent of a push")
@dataclass(frozen=True)
class PushIntent:
    """One try at reading the source; ``digest`` is that of the request, ``schema`` the table's (DDL).

    ``active`` and ``whole`` are those of a stage's intent: all tasks run, in one epoch.
    """

    epoch: int
    tasks: int
    digest: str
    schema: str
    active: tuple[int, ...] | None = None
    whole: bool = True


@durable("manifest of a push", later={"checked": ()})
@dataclass(frozen=True)
class PushManifest:
    """The rows that one task of a push found and staged.

    ``staged`` is the system's description of them. ``null_keys`` and ``duplicates`` were left out (``examples`` are a
    few such keys), ``nulls`` counts nulls by column that may not have any. ``checked`` is what was found about the
    expectations of the table.
    """

    rows: int
    deletes: int
    null_keys: int
    duplicates: int
    bytes: int
    staged: Mapping[str, Any]
    examples: tuple[Any, ...] = ()
    nulls: Mapping[str, int] = field(default_factory=dict)
    checked: tuple[Checked, ...] = ()


@durable(
    "publication of a push",
    later={"schema": "", "rows": 0, "deletes": 0, "bytes": 0, "null_keys": 0, "duplicates": 0, "checked": ()},
)
@dataclass(frozen=True)
class PushPublication:
    """The decision what a push publishes, by task, and as which generation of its section of the topic.

    An empty ``digest`` publishes nothing, in the place of what was published before. ``null_keys``, ``duplicates`` and
    ``checked`` are as of all manifests together.
    """

    digest: str
    generation: str
    staged: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    schema: str = ""
    rows: int = 0
    deletes: int = 0
    bytes: int = 0
    null_keys: int = 0
    duplicates: int = 0
    checked: tuple[Checked, ...] = ()


@durable("result of a push", reports=True)
@dataclass(frozen=True)
class PushResult:
    """The version that a push has become."""

    version: int = 0
    push: str = ""
