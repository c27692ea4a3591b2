"""The files of an output that readers see, by its manifests and the turns at its slots (decision 103).

Our own readers follow it, so that they never see half a publication, nor files of two runs of one slot. Readers,
publishers and the command ``fsck`` ask it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property

import pyarrow.fs as pafs

from airflow_samza.grouping import grouped
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.output_records import (
    FOLDER,
    SlotTurn,
    list_manifests,
    list_turns,
    manifest_path,
    part_of,
    read_manifest,
    read_writer,
)
from airflow_samza.systems.output_slots import SlotCode, SlotWriter, Turn, Turns


@dataclass(frozen=True)
class View:
    """An output as its records say at one moment: its manifests, and all turns, the newest last."""

    manifests: tuple[tuple[str, str, int], ...]
    turns: tuple[SlotTurn, ...] = ()

    @classmethod
    def of(cls, output: Location, *, slots: bool = True) -> View:
        """Look at an output; without ``slots`` as if nobody had written any."""
        # The manifests first: a turn is on record before its first manifest is.
        manifests = tuple(sorted(manifest for manifest, _ in list_manifests(output)))
        return cls(manifests, tuple(list_turns(output)) if slots else ())

    @cached_property
    def owners(self) -> Turns[SlotCode]:
        """Whose files stand."""
        published = frozenset(manifest[:2] for manifest in self.manifests)
        return Turns(published, grouped((turn.code, turn.turn) for turn in self.turns))

    def standing(self) -> Iterator[tuple[str, str, int]]:
        """Yield the manifests that readers see."""
        return (manifest for manifest in self.manifests if self.owners.stands(*manifest[:2]))

    def writers(self, output: Location, code: SlotCode) -> list[SlotWriter]:
        """Return who has written the slots that meet one, of what stands."""
        writers = []
        for turn in itertools.starmap(SlotTurn, self.owners.standing()):
            if code.meets(turn.code):
                with suppress(FileNotFoundError):  # replaced since it was listed
                    writers.append(read_writer(output, turn))
        return writers

    def replaced(self) -> Iterator[Turn]:
        """Yield the turns after which another run has published."""
        holders = self.owners.holders
        turns = self.owners.slot_of.values()
        return (turn for code, turn in turns if code in holders and turn.order < holders[code].order)

    def replaced_in(self, code: SlotCode, mine: Turn) -> list[Turn]:
        """Return the turns at a slot that one replaces: those that began before."""
        return [turn for turn in self.owners.of_slots[code] if turn.order < mine.order]


def published_at(output: Location) -> dict[str, datetime]:
    """Return when each producer whose files stand has last published, by its hash.

    Those of a storage that has no times of files are left out.
    """
    standing = set(View.of(output).standing())
    latest: dict[str, datetime] = {}
    for manifest, info in list_manifests(output):
        if manifest in standing and info.mtime is not None:
            at = info.mtime.replace(tzinfo=info.mtime.tzinfo or timezone.utc)
            latest[manifest[0]] = max(latest.get(manifest[0], at), at)
    return latest


class PublishedFiles:
    """The files below a root that are to be read: all but parts of ours that do not stand."""

    def __init__(self, root: Location) -> None:
        self._root = root
        self._standing: dict[str, dict[str, frozenset[str]] | None] = {}

    def replaced_by(self, path: str) -> frozenset[str] | None:
        """Return the producers, by their hashes, whose files the writer of a file has replaced.

        None: the file is not to be read.
        """
        directory, _, name = path.rpartition("/")
        if part_of(name) is None:
            return frozenset()
        if directory not in self._standing:
            self._standing[directory] = _standing(self._root.at(directory))
        standing = self._standing[directory]
        return frozenset() if standing is None else standing.get(name)


def _standing(place: Location) -> dict[str, frozenset[str]] | None:
    """Return the parts that stand in a directory, each with the producers whose files its writer has replaced.

    None for a directory without our records, which was copied from elsewhere.
    """
    within = {str(info.path).rstrip("/").rpartition("/")[2] for info in (place / FOLDER).entries()}
    if not within and place.filesystem.get_file_info((place / FOLDER).path).type == pafs.FileType.NotFound:
        return None
    view = View.of(place, slots="slots" in within)
    replaced = {
        turn.owner: frozenset(former.producer for former in view.replaced_in(code, turn))
        for code, turn in view.owners.standing()
    }
    standing: dict[str, frozenset[str]] = {}
    for manifest in view.standing():
        with suppress(FileNotFoundError):  # superseded since it was listed
            names = [name for name, _, _ in read_manifest(manifest_path(place, *manifest)).files]
            standing |= dict.fromkeys(names, replaced.get(manifest[:2], frozenset()))
    return standing
