"""The context of an attempt at a push, and the port through which its source is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from airflow_samza.engine.stage_context import Attempt
from airflow_samza.runs.tables.push_request import PushRequest
from airflow_samza.schema import Schema
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec, System, SystemBinding


@dataclass(frozen=True)
class PushContext:
    """One attempt at a push: the root's files, the systems' bindings, the table's system, and the request.

    ``origins`` maps the paths of shipped code to where the user wrote it, for what errors show.
    """

    files: Filesystem
    bindings: Mapping[str, SystemBinding] = field(repr=False)  # they hold secrets
    system: System
    request: PushRequest
    attempt: Attempt
    origins: Mapping[str, str]


class PushSource(Protocol):
    """The source of a push, opened and checked."""

    @property
    def schema(self) -> Schema:
        """The table's columns."""
        ...

    def stage(self, stream: StreamSpec, epoch: int) -> None:
        """Write the rows as segments of the push stream, with a manifest for each partition that has any."""
        ...
