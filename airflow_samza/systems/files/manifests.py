"""The record beside written files: which of them are published, by whom and in which generation.

A manifest ``<output>/_samza/manifests/<producer hash>.<generation>.<epoch>.json`` names the files of one published
epoch. Other engines read the directory as it is; our own reader trusts the manifests, so it never sees half a
publication. Publishers write it, readers of outputs trust it, and the command ``fsck`` compares it.
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
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.filesystems.filesystem import LOOK_WHO
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


def list_manifests(output: Location) -> list[tuple[str, str, int]]:
    """Return producer hash, generation and epoch of every manifest of an output directory."""
    return sorted(manifest for manifest, _ in _manifests(output))


def dated_manifests(output: Location) -> dict[tuple[str, str, int], datetime]:
    """Return when each manifest was written; without those of a storage that has no times of files."""
    return {
        manifest: info.mtime.replace(tzinfo=info.mtime.tzinfo or timezone.utc)
        for manifest, info in _manifests(output)
        if info.mtime is not None
    }


def _manifests(output: Location) -> Iterator[tuple[tuple[str, str, int], pafs.FileInfo]]:
    selector = pafs.FileSelector((output / f"{FOLDER}/manifests").path, allow_not_found=True)
    for info in output.filesystem.get_file_info(selector):
        match = _MANIFEST.fullmatch(str(info.path).rpartition("/")[2])
        if match is not None and info.type == pafs.FileType.File:
            yield (match["producer"], match["generation"], int(match["epoch"])), info


def list_staged(output: Location) -> Iterator[tuple[Location, timedelta | None]]:
    """Yield the files that wait for publication, with their ages; None of a storage that has no times of files."""
    now = datetime.now(timezone.utc)
    selector = pafs.FileSelector(own_path(output, "staging/").path, allow_not_found=True)
    for info in output.filesystem.get_file_info(selector):
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
