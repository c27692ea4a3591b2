"""Runs of one name under several roots that write one folder: only the first may.

Manifests and turns name the root of their run. Before there is one, a *claim* does, an empty file beside staged ones:
``<output>/_samza/staging/claim-<producer hash>-<root>``. The race is between runs A and B, whose files have the same
names. Each writes its claim first, then looks at those of others, then at manifests, and removes its claim when its
manifest stands. So at least one of them sees the other, and gives up before it has moved a file.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from urllib.parse import quote, unquote

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.durable_files import delete_file, write_file
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.output_records import (
    list_staged,
    manifest_path,
    own_path,
    producer_hash,
    read_manifest,
    read_writer,
)
from airflow_samza.systems.files.published_files import View
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.output_slots import is_of_other_root, namesake

STALE = timedelta(days=7)
"""Staged files and claims this old belong to attempts that died; none lives so long."""


@dataclass(frozen=True)
class Namesakes:
    """Runs that have the name of a producer; its own root is that of the identity ``root``."""

    output: Location
    stream: str
    producer: str
    root: str

    def reject_published(self, view: View) -> bool:
        """Reject the producer if a namesake has published; return whether it has published under its own root."""
        root, generation = newest_root(self.output, view, producer_hash(self.producer, self.stream))
        if is_of_other_root(self.root, root):
            raise self._error(generation, root)
        return bool(root)

    def claim(self) -> None:
        """Claim the names of the producer's files; reject it if a namesake has a claim, too."""
        write_file(self._claim, b"")
        for place, age in list_staged(self.output):
            name, mine = place.name, self._claim.name
            if name.startswith(self._prefix) and name != mine and (age is None or age <= STALE):
                self.give_back()
                raise self._error(None, unquote(name.removeprefix(self._prefix)))

    def give_back(self) -> None:
        """Remove the claim, if there is one."""
        if self.root:
            delete_file(self._claim)

    @property
    def _prefix(self) -> str:
        return f"claim-{producer_hash(self.producer, self.stream)}-"

    @cached_property
    def _claim(self) -> Location:
        return own_path(self.output, f"staging/{self._prefix}{quote(self.root, safe='')}")

    def _error(self, generation: str | None, root: str) -> TopicError:
        return namesake(
            output=str(self.output),
            stream=self.stream,
            producer=self.producer,
            generation=generation,
            root=root,
            path=str(self.output),
        )


def newest_root(output: Location, view: View, producer: str) -> tuple[str, str]:
    """Return root and generation of what a producer, by its hash, has published last.

    The root is "" where it is not on record: of a former version, of a record that is damaged or gone, of nothing.
    """
    manifests = [manifest for manifest in view.manifests if manifest[0] == producer]
    turns = [turn for turn in view.turns if turn.turn.producer == producer]
    with suppress(TopicError, FileNotFoundError):
        if manifests:
            newest = max(manifests, key=lambda manifest: (parse_generation(manifest[1]), manifest[2]))
            return read_manifest(manifest_path(output, *newest)).root, newest[1]
        if turns:  # another run has replaced what it published
            return read_writer(output, turns[-1]).root, turns[-1].turn.generation
    return "", ""
