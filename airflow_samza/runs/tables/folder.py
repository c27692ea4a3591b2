"""The folder of a pushed table: versions, marks of those that are given up, pins, and what pushes decide.

Pushes, pins and retention write there; the page and the command line read.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_samza.runs.records.names import safe

GIVEN_UP = ".given-up.json"
"""The end of the name of a mark that what a version was compacted of may no longer be read."""


@dataclass(frozen=True)
class TableFolder:
    """The records of one table, found by the system and the physical name of its push stream."""

    system: str
    topic: str

    @property
    def path(self) -> str:
        """The folder, from the root."""
        return f"tables/{safe(self.system)}/{safe(self.topic)}"

    @property
    def versions(self) -> str:
        """The folder of versions, numbered from 1."""
        return f"{self.path}/versions"

    def version(self, number: int) -> str:
        """The record of one version."""
        return f"{self.versions}/{number:020}.json"

    @property
    def expired(self) -> str:
        """The folder of marks: a version that has one may no longer be read."""
        return f"{self.path}/expired"

    @property
    def proposals(self) -> str:
        """The folder of proposals of marks, of versions and of chains: none is made of what was pinned meanwhile."""
        return f"{self.path}/attempts"

    @property
    def compactions(self) -> str:
        """The folder of compactions, by the number of the version."""
        return f"{self.path}/compactions"

    def compaction(self, number: int) -> str:
        """Says that one section holds the rows of a version, too."""
        return f"{self.compactions}/{number:020}.json"

    def given_up(self, number: int) -> str:
        """Marks what a version was compacted of: it may no longer be read."""
        return f"{self.compactions}/{number:020}{GIVEN_UP}"

    @property
    def compacting(self) -> str:
        """The folder of what the tasks of compactions have staged, by the number of the version."""
        return f"{self.path}/compacting"

    def push(self, push_id: str) -> str:
        """The folder of one push: what it decides on its way to a version."""
        return f"{self.path}/pushes/{safe(push_id)}"

    def pin(self, number: int, reader: str) -> str:
        """Says that a run reads a version, which therefore stays."""
        return f"{self.pins}/{number:020}/{safe(reader)}.json"

    @property
    def pins(self) -> str:
        """The folder of pins, by version."""
        return f"{self.path}/pins"
