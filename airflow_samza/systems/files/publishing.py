"""Publishing of staged files under deterministic names, as a list of steps that may each be done again.

Claim the names of the files (:mod:`~airflow_samza.systems.files.namesakes`), take a turn at the slot, move the staged
files, write the manifest, remove the files of lower generations and of runs whose slot it is now, clear the staging.
The manifest decides: before it, our readers see the former generation or run; after it, the new one.

The race is between attempt A and attempt B, which has a higher generation or is of another run of the slot. Each writes
its own record (turn, manifest) first and then looks at those of others, so at least one of them sees the other. If A
sees B, it takes back what it has moved and gives up. If A looked before B had written, B sees A and removes its files.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pyarrow.fs as pafs

from airflow_samza.errors import TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.files.durable_files import (
    delete_file,
    make_directory,
    sync_directory,
    sync_file,
    write_file,
)
from airflow_samza.systems.files.failures import is_missing, storage_errors
from airflow_samza.systems.files.formats.file_format import open_format
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.location import Location, info_and_version
from airflow_samza.systems.files.namesakes import STALE, Namesakes
from airflow_samza.systems.files.output_records import (
    Manifest,
    SlotTurn,
    encode_writer,
    list_staged,
    list_turns,
    manifest_path,
    own_path,
    part_name,
    part_of,
    producer_hash,
    read_manifest,
    winner_at,
)
from airflow_samza.systems.files.published_files import View
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.output_slots import (
    SlotCode,
    SlotWriter,
    Turn,
    digest,
    outdated,
    reject_meeting,
    replaced,
    run_of,
)
from airflow_samza.systems.system import Publication, StreamSpec
from airflow_samza.systems.topic_rejections import CLEAR_STAGE


def publish(output: Location, stream: StreamSpec, format_name: str, publication: Publication) -> dict[str, Any]:
    """Make one epoch's files visible; doing it again, from any point at which it stopped, changes nothing more."""
    with storage_errors(path=str(output), stream=stream.name, doing="write"):
        return _Publisher(output, stream, format_name, publication).run()


class _Publisher:
    def __init__(self, output: Location, stream: StreamSpec, format_name: str, publication: Publication) -> None:
        self.output = output
        self.filesystem = output.filesystem
        self.stream = stream
        self.format_name = format_name
        self.publication = publication
        self.producer = producer_hash(publication.producer, stream.name)
        self.run_digest = digest(run_of(publication.producer))
        self.generation = parse_generation(publication.generation)
        self.mine = (self.producer, publication.generation)
        self.place = manifest_path(output, *self.mine, publication.epoch)
        self.namesakes = Namesakes(output, stream.name, publication.producer, publication.root)
        self.slot: SlotCode | None = publication.slot.code if publication.slot is not None else None

    def run(self) -> dict[str, Any]:
        view = self._claim(self._look())
        self._reject_late(view)
        view = self._begin(view)
        if self._info(self.place.path).is_file:
            manifest = read_manifest(self.place)
        else:
            manifest = self._move_files(view)
            self._write_record(self.place, manifest.encode())
            # A higher generation, or another run of the slot, may have published meanwhile; having written first, one
            # of the two sees the other.
            view = self._look()
            self._reject_late(view)
        superseded: list[str] = []
        # Between the first and the last epoch of a generation nothing can have come that has to go; looking costs a
        # listing of all.
        if self.publication.final or not self._has_published(view):
            superseded = self._remove_replaced(view)
            self._clear_staging()
        return {
            "path": str(self.output),
            "format": manifest.format,
            "rows": sum(rows for _, rows, _ in manifest.files),
            "bytes": sum(size for _, _, size in manifest.files),
            "files": [name for name, _, _ in manifest.files],
            "superseded": superseded,
        }

    def _claim(self, view: View) -> View:
        """Claim the names of the producer's files, unless a manifest has its root; reject it if it has a namesake."""
        if not self.publication.root or self.namesakes.reject_published(view):
            return view
        self.namesakes.claim()
        view = self._look()
        try:
            self.namesakes.reject_published(view)
        except TopicError:
            self.namesakes.give_back()
            raise
        return view

    def _look(self) -> View:
        for folder in ("staging/", "manifests/", "slots/"):  # where files are written, moved and deleted
            own_path(self.output, folder)
        return View.of(self.output, slots=self.slot is not None)

    def _has_published(self, view: View) -> bool:
        """Return whether another epoch of this generation is published."""
        return any(manifest[:2] == self.mine and manifest[2] != self.publication.epoch for manifest in view.manifests)

    def _reject_late(self, view: View) -> None:
        """Reject a generation that a higher one, or another run of its slot, has replaced; take back what it moved."""
        owners = [*(manifest[:2] for manifest in view.manifests), *(turn.owner for turn in view.replaced())]
        higher = [g for p, g in owners if p == self.producer and parse_generation(g) > self.generation]
        if higher:
            newest = max(higher, key=parse_generation)
            self._withdraw(view)
            raise outdated(
                output=str(self.output),
                stream=self.stream.name,
                producer=self.publication.producer,
                generation=self.publication.generation,
                newest=newest,
                path=str(self.output),
            )
        if self.slot is None or self.publication.slot is None:
            return
        winner = view.owners.winner(self.slot, self.run_digest, *self.mine)
        if winner is not None:
            self._withdraw(view)
            raise replaced(
                self.publication.slot,
                output=str(self.output),
                stream=self.stream.name,
                producer=self.publication.producer,
                generation=self.publication.generation,
                winner=winner_at(self.output, SlotTurn(self.slot, winner)),
            )

    def _begin(self, view: View) -> View:
        """Take the turn of this generation at its slot, unless it has one.

        One that died after it had taken its turn looks again: another application may have published since.
        """
        if self.slot is None or self.publication.slot is None or self.mine in view.owners.published:
            return view
        publication, slot = self.publication, self.publication.slot
        met = view.writers(self.output, self.slot)
        try:
            reject_meeting(slot, met, output=str(self.output), stream=self.stream.name)
        except TopicError:
            self._withdraw(view)
            raise
        if self.mine in view.owners.slot_of:
            return view
        number = view.owners.next_number(self.slot, self.run_digest)
        turn = SlotTurn(self.slot, Turn(number, self.run_digest, *self.mine))
        writer = SlotWriter(slot, publication.producer, publication.generation, publication.root)
        self._write_record(turn.place(self.output), encode_writer(writer))
        view = self._look()
        self._reject_late(view)
        return view

    def _move_files(self, view: View) -> Manifest:
        make_directory(own_path(self.output, "manifests/"))
        files: list[tuple[str, int, int]] = []
        for task in sorted(self.publication.staged):
            for number, file in enumerate(self.publication.staged[task]["files"]):
                place = task + number * 100_000  # a task writes one file; more keep apart
                name = part_name(place, *self.mine, self.publication.epoch, self.format_name)
                self._move(self.output / str(file["path"]), self.output / name, int(file["bytes"]))
                files.append((name, int(file["rows"]), int(file["bytes"])))
        if not files:
            files.extend(self._write_empty(view))
        sync_directory(self.output)  # before the manifest names the files
        return Manifest(
            *self.mine,
            self.publication.epoch,
            self.stream.name,
            self.format_name,
            tuple(files),
            self.publication.root,
        )

    def _move(self, staged: Location, final: Location, size: int) -> None:
        """Move a file unless it has been moved.

        Where a move is a copy and a deletion, as in buckets (decision 84), both may exist after a crash.
        """
        existing = self._info(final.path)
        if not (existing.is_file and existing.size == size):
            if existing.is_file:
                self.filesystem.delete_file(final.path)
            try:
                self.filesystem.move(staged.path, final.path)
            except OSError as error:
                others = self._info(final.path)  # somebody else publishes the same
                if others.is_file and others.size == size:
                    return
                if not is_missing(error):
                    raise
                raise TopicError(
                    f"The staged file {staged} of stream {self.stream.name!r} is gone before it was published.",
                    hint=CLEAR_STAGE,
                    path=str(staged),
                    stream=self.stream.name,
                ) from error
        elif self._info(staged.path).is_file:
            delete_file(staged)

    def _info(self, path: str) -> pafs.FileInfo:
        """Return a file as it is in the storage."""
        return info_and_version(self.filesystem, path)[0]

    def _write_empty(self, view: View) -> list[tuple[str, int, int]]:
        """Return a file without rows, so that the directory can be read with its schema though no task had output."""
        described = [staged.get("schema") for _, staged in sorted(self.publication.staged.items())]
        ddl = self.stream.schema or next((text for text in described if text), None)
        if ddl is None or not self.publication.staged or not self.publication.final or self._has_published(view):
            return []
        task = min(self.publication.staged)
        name = part_name(task, *self.mine, self.publication.epoch, self.format_name)
        draft = self._draft(self.format_name)
        make_directory(draft.parent)
        with self.filesystem.open_output_stream(draft.path, compression=None) as sink:
            writer = open_format(self.format_name).writer(sink, Schema.of(ddl).to_arrow(), FileOptions.of(self.stream))
            writer.close()
        sync_file(draft)
        size = int(self.filesystem.get_file_info(draft.path).size)
        self._move(draft, self.output / name, size)
        return [(name, 0, size)]

    def _draft(self, extension: str) -> Location:
        """Return a file of this call alone; what a crash leaves of it is swept like staged files."""
        return own_path(self.output, f"staging/draft-{uuid.uuid4().hex}.{extension}")

    def _write_record(self, place: Location, content: bytes) -> None:
        draft = self._draft("json")
        make_directory(place.parent)
        write_file(draft, content)
        sync_file(draft)
        if self._info(place.path).is_file:  # somebody else wrote the same; some storages do not replace by a move
            delete_file(draft)
        else:
            self.filesystem.move(draft.path, place.path)
        sync_directory(place.parent)

    def _remove_replaced(self, view: View) -> list[str]:
        """Remove what lower generations of this producer published, and what runs published that it replaces.

        Of other runs the turns stay: by them a run sees that it was replaced. So do manifests of this producer at
        another slot, by which the turns there count; and the newest one of a producer that has older ones elsewhere,
        which would count as its newest otherwise.
        """
        mine = view.owners.slot_of.get(self.mine)
        former = {past.owner for past in view.replaced_in(*mine)} if mine is not None else set()
        removed = self._remove_parts(lambda owner: owner in former or self._is_lower(owner))
        lower = {manifest[:2] for manifest in view.manifests if self._is_lower(manifest[:2])}
        turns = view.turns if self.slot is not None or not lower else list_turns(self.output)
        elsewhere = {past.turn.owner for past in turns if past.code != self.slot}
        older = {manifest[0] for manifest in view.manifests if manifest[:2] not in former}
        for manifest in view.manifests:
            if (manifest[:2] in former and manifest[0] not in older) or manifest[:2] in lower - elsewhere:
                delete_file(manifest_path(self.output, *manifest))
        for past in turns:
            if self._is_lower(past.turn.owner) and past.turn.owner not in elsewhere:
                delete_file(past.place(self.output))
        return removed

    def _is_lower(self, owner: tuple[str, str]) -> bool:
        return owner[0] == self.producer and parse_generation(owner[1]) < self.generation

    def _withdraw(self, view: View) -> None:
        """Take back what this generation has published, unless readers see it."""
        if view.owners.stands(*self.mine):
            return
        self._remove_parts(lambda owner: owner == self.mine)
        for manifest in view.manifests:
            if manifest[:2] == self.mine:
                delete_file(manifest_path(self.output, *manifest))
        self._clear_staging()

    def _remove_parts(self, is_old: Callable[[tuple[str, str]], bool]) -> list[str]:
        """Remove parts by producer and generation, as their names say; those of crashed publications, too."""
        removed = []
        for path in sorted(str(info.path) for info in self.output.entries() if info.is_file):
            part = part_of(path.rpartition("/")[2])
            if part is not None and is_old(part[:2]):
                delete_file(self.output.at(path))
                removed.append(path.rpartition("/")[2])
        return removed

    def _clear_staging(self) -> None:
        """Remove what is left of this epoch's staged files, and what attempts that died long ago left."""
        for staged in self.publication.staged.values():
            for file in staged["files"]:
                delete_file(self.output / str(file["path"]))
        self.namesakes.give_back()
        for place, age in list_staged(self.output):
            if age is not None and age > STALE:
                delete_file(place)
