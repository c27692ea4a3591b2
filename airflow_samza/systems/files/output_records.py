"""The records beside written files: which of them are published, by whom, and in which order runs began to publish.

A manifest ``<output>/_samza/manifests/<producer hash>.<generation>.<epoch>.json`` names the files of one published
epoch. Other engines read the directory as it is; our own reader trusts the manifests, so it never sees half a
publication. Publishers write it, readers of outputs trust it, and the command ``fsck`` compares it.

A record of a slot ``<output>/_samza/slots/slot.<slot>.<turn>.<run>.<producer>.<generation>.json`` (rule O1, decision
103) is written before the first file of a generation is published. All that decides stands in its name; it holds the
same for people. The manifests say which of them have published. Records of what was replaced stay: so a run that goes
on afterwards notices that it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone

import pyarrow.fs as pafs

from airflow_samza.errors import TopicError
from airflow_samza.records import plain
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.filesystems.filesystem import LOOK_WHO
from airflow_samza.systems.output_slots import OutputSlot, SlotCode, SlotWriter, Turn
from airflow_samza.typed_values import converted

FOLDER = "_samza"
_PART = re.compile(r"part-\d{5,}-(?P<producer>[0-9a-f]{12})-g(?P<generation>\d+(?:\.\d+)*)-e(?P<epoch>\d+)\.[a-z]+")
_MANIFEST = re.compile(r"(?P<producer>[0-9a-f]{12})\.(?P<generation>\d+(?:\.\d+)*)\.(?P<epoch>\d+)\.json")


@dataclass(frozen=True)
class Manifest:
    """Published epoch: ``files`` are (name, rows, bytes).

    ``root`` is the identity of the run's root ("": of a former version, which did not note it).
    """

    producer: str
    generation: str
    epoch: int
    stream: str
    format: str
    files: tuple[tuple[str, int, int], ...]
    root: str = ""

    def encode(self) -> bytes:
        """Return the manifest's JSON."""
        return json.dumps(asdict(self), sort_keys=True, indent=1).encode()


def producer_hash(producer: str, stream: str) -> str:
    """Return 12 hex digits for a producer's output to a stream: two outputs of one stage may share a directory."""
    return hashlib.sha256(f"{producer}\0{stream}".encode()).hexdigest()[:12]


def part_name(task: int, producer: str, generation: str, epoch: int, extension: str) -> str:
    """Return the deterministic name of one task's file."""
    return f"part-{task:05d}-{producer}-g{generation}-e{epoch}.{extension}"


def part_of(name: str) -> tuple[str, str, int] | None:
    """Return producer hash, generation and epoch of a file that :func:`part_name` named; None for any other file."""
    match = _PART.fullmatch(name)
    return (match["producer"], match["generation"], int(match["epoch"])) if match else None


def own_path(output: Location, path: str) -> Location:
    """Return the location of what a writer writes or deletes in the folder of records beside the files of an output.

    Whoever may write the output could lead it elsewhere by a link: what is old and staged there would be deleted. So
    none of the folders may be one.
    """
    if isinstance(output.filesystem, pafs.LocalFileSystem):
        place = output
        for part in [FOLDER, *path.split("/")[:-1]]:
            place = place / part
            if os.path.islink(place.path):
                raise TopicError(
                    f"{place} is a link, and links in the folder of an output's records are not followed.",
                    hint=LOOK_WHO,
                    path=str(place),
                    link=True,
                )
    return output / f"{FOLDER}/{path}"


def manifest_path(output: Location, producer: str, generation: str, epoch: int) -> Location:
    """Return the path of one epoch's manifest."""
    return output / f"{FOLDER}/manifests/{producer}.{generation}.{epoch}.json"


def list_manifests(output: Location) -> Iterator[tuple[tuple[str, str, int], pafs.FileInfo]]:
    """Yield producer hash, generation and epoch of every manifest of an output directory, and its file."""
    for info in (output / f"{FOLDER}/manifests").entries():
        match = _MANIFEST.fullmatch(str(info.path).rpartition("/")[2])
        if match is not None and info.type == pafs.FileType.File:
            yield (match["producer"], match["generation"], int(match["epoch"])), info


def list_staged(output: Location) -> Iterator[tuple[Location, timedelta | None]]:
    """Yield the files that wait for publication, with their ages; None of a storage that has no times of files."""
    now = datetime.now(timezone.utc)
    for info in own_path(output, "staging/").entries():
        if info.is_file:
            at = None if info.mtime is None else info.mtime.replace(tzinfo=info.mtime.tzinfo or timezone.utc)
            yield output.at(str(info.path)), None if at is None else now - at


def read_manifest(place: Location) -> Manifest:
    """Return a manifest as it was written; a damaged one is a :class:`TopicError`."""
    with place.filesystem.open_input_stream(place.path, compression=None) as source:
        text = source.read()
    try:
        return converted(json.loads(text), Manifest)
    except (ValueError, RecursionError) as error:
        raise TopicError(
            f"The manifest {place} is damaged: {error}.",
            hint="Remove it and clear the stage that wrote it, which publishes its files again.",
            path=str(place),
        ) from error


_TURN = re.compile(
    r"slot\.(?P<application>[0-9a-f]{12})(?:\.i(?P<begin>-?\d+)_(?P<end>-?\d+))?(?:\.k(?P<key>[0-9a-f]{12}))?"
    r"(?:\.c(?P<config>[0-9a-f]{12}))?\.(?P<number>\d+)\.(?P<run>[0-9a-f]{12})\.(?P<producer>[0-9a-f]{12})"
    r"\.(?P<generation>\d+(?:\.\d+)*)\.json"
)


@dataclass(frozen=True)
class SlotTurn:
    """Turn at a slot of an output, by the name of its record; run and producer are digests."""

    code: SlotCode
    turn: Turn

    @property
    def name(self) -> str:
        """The record's name."""
        application, interval, key, config = self.code
        parts = ["slot", application]
        parts += [] if interval is None else [f"i{interval[0]}_{interval[1]}"]
        parts += [f"k{key}"] if key else []
        parts += [f"c{config}"] if config else []
        return ".".join([*parts, str(self.turn.number), *self.turn[1:], "json"])

    def place(self, output: Location) -> Location:
        """Return the path of the record."""
        return output / f"{FOLDER}/slots/{self.name}"


def list_turns(output: Location) -> list[SlotTurn]:
    """Return all turns of an output."""
    turns = []
    for info in (output / f"{FOLDER}/slots").entries():
        match = _TURN.fullmatch(str(info.path).rpartition("/")[2])
        if match is None or not info.is_file:
            continue
        interval = None if match["begin"] is None else (int(match["begin"]), int(match["end"]))
        code = SlotCode(match["application"], interval, match["key"] or "", match["config"] or "")
        turn = Turn(int(match["number"]), match["run"], match["producer"], match["generation"])
        turns.append(SlotTurn(code, turn))
    return sorted(turns, key=lambda slot_turn: (slot_turn.turn.order, slot_turn.name))


def encode_writer(writer: SlotWriter) -> bytes:
    """Return the content of a record."""
    facts = {"producer": writer.producer, "generation": writer.generation, "root": writer.root}
    return json.dumps({**plain(writer.slot), **facts}).encode()


def read_writer(output: Location, turn: SlotTurn) -> SlotWriter:
    """Return who has written a slot; a damaged record is a :class:`TopicError`."""
    place = turn.place(output)
    try:
        with place.filesystem.open_input_stream(place.path, compression=None) as source:
            record = json.loads(source.read())
        slot = converted(record, OutputSlot)
        if slot.code != turn.code:
            raise ValueError("it is of another slot than its name says")
        return SlotWriter(slot, str(record["producer"]), str(record["generation"]), str(record.get("root", "")))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TopicError(
            f"The record {place} is damaged: {error}.",
            hint=f"Restore it; or remove it together with {output}/part-*-{turn.turn.producer}-*, and run that "
            "interval again.",
            path=str(place),
        ) from error


def winner_at(output: Location, turn: SlotTurn) -> str:
    """Return the producer that has a turn; of a record that cannot be read, one with the digest of its run."""
    try:
        return read_writer(output, turn).producer
    except (TopicError, OSError):
        return f"?/{turn.turn.run}/?"
