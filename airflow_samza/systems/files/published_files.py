"""The files of an output that readers see, by its manifests and the turns at its slots (decision 103).

Our own readers follow it, so that they never see half a publication, nor files of two runs of one slot. Readers,
publishers and the command ``fsck`` ask it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property

import pyarrow.fs as pafs

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
from airflow_samza.systems.generations import newest_generations, parse_generation
from airflow_samza.systems.output_slots import Order, SlotCode, SlotWriter, Turn


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
    def newest(self) -> dict[str, tuple[int, ...]]:
        """The newest generation that each producer has published."""
        return newest_generations((producer, generation) for producer, generation, _ in self.manifests)

    @cached_property
    def published(self) -> frozenset[tuple[str, str]]:
        """Producers and generations that have published."""
        return frozenset((producer, generation) for producer, generation, _ in self.manifests)

    @cached_property
    def holders(self) -> dict[SlotCode, Order]:
        """The newest turn of each slot that has published."""
        return {turn.code: turn.turn.order for turn in self.turns if turn.owner in self.published}  # the newest is last

    @cached_property
    def by_owner(self) -> dict[tuple[str, str], SlotTurn]:
        """The turn of each producer's generation that has one."""
        return {turn.owner: turn for turn in self.turns}

    def of_slot(self, code: SlotCode) -> list[Turn]:
        """Return the turns of a slot."""
        return [slot_turn.turn for slot_turn in self.turns if slot_turn.code == code]

    def stands(self, producer: str, generation: str) -> bool:
        """Return whether readers see what a producer's generation has published."""
        if (producer, generation) not in self.published or parse_generation(generation) != self.newest[producer]:
            return False
        turn = self.by_owner.get((producer, generation))
        return turn is None or turn.turn.order == self.holders[turn.code]

    def standing(self) -> Iterator[tuple[str, str, int]]:
        """Yield the manifests that readers see."""
        return (manifest for manifest in self.manifests if self.stands(manifest[0], manifest[1]))

    def standing_turns(self) -> Iterator[SlotTurn]:
        """Yield the turns whose files readers see."""
        return (turn for turn in self.by_owner.values() if self.stands(*turn.owner))

    def writers(self, output: Location, code: SlotCode) -> list[SlotWriter]:
        """Return who has written the slots that meet one, of what stands."""
        writers = []
        for turn in self.standing_turns():
            if code.meets(turn.code):
                with suppress(FileNotFoundError):  # replaced since it was listed
                    writers.append(read_writer(output, turn))
        return writers

    def successor(self, producer: str) -> SlotTurn | None:
        """Return the turn that has replaced the newest one of a producer; None: it stands, or has none."""
        newest = max((k for k in self.turns if k.turn.producer == producer), key=lambda k: k.turn.order, default=None)
        holder = self.holders.get(newest.code) if newest is not None else None
        if newest is None or holder is None or newest.turn.order >= holder:
            return None
        return next(other for other in self.turns if other.code == newest.code and other.turn.order == holder)

    def outside(self) -> frozenset[str]:
        """Return the producers of files that readers see, and that are of no slot."""
        return frozenset(manifest[0] for manifest in self.standing() if manifest[:2] not in self.by_owner)

    def replaced(self) -> Iterator[SlotTurn]:
        """Yield the turns after which another run has published."""
        return (k for k in self.turns if k.code in self.holders and k.turn.order < self.holders[k.code])

    def replaced_in(self, mine: SlotTurn) -> list[SlotTurn]:
        """Return the turns that one replaces: those of its slot that began before."""
        return [turn for turn in self.turns if turn.code == mine.code and turn.turn.order < mine.turn.order]


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
        turn.owner: frozenset(former.turn.producer for former in view.replaced_in(turn))
        for turn in view.standing_turns()
    }
    standing: dict[str, frozenset[str]] = {}
    for manifest in view.standing():
        with suppress(FileNotFoundError):  # superseded since it was listed
            names = [name for name, _, _ in read_manifest(manifest_path(place, *manifest)).files]
            standing |= dict.fromkeys(names, replaced.get(manifest[:2], frozenset()))
    return standing
