"""The system ``files``: a root, the streams under it, and their consumers and producers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.records import from_plain
from airflow_samza.systems.capabilities import Written
from airflow_samza.systems.files.durable_files import delete_file, write_probe
from airflow_samza.systems.files.failures import storage_errors
from airflow_samza.systems.files.formats.options import (
    FileOptions,
    FollowOptions,
    format_name,
    partition_count,
    reject_options,
    storage_options,
)
from airflow_samza.systems.files.listing import Listing, find_files, find_missing
from airflow_samza.systems.files.location import Location, check_inside, has_glob, is_url, named_part, open_location
from airflow_samza.systems.files.namesakes import Namesakes
from airflow_samza.systems.files.new_files import FilesRead, find_new_files
from airflow_samza.systems.files.output import FilesProducer, reject_file, written_rows
from airflow_samza.systems.files.output_records import (
    SlotTurn,
    manifest_path,
    own_path,
    producer_hash,
    read_manifest,
    winner_at,
)
from airflow_samza.systems.files.published_files import View
from airflow_samza.systems.files.publishing import publish
from airflow_samza.systems.files.reading import FilesConsumer, is_as_listed
from airflow_samza.systems.files.slicing import (
    detect_format,
    files_of,
    fix_chunks,
    fix_intervals,
    fix_slice,
    schema_of_files,
)
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.output_slots import OutputSlot, SlotWriter
from airflow_samza.systems.system import ColumnBound, Publication, StreamMetadata, StreamSpec, SystemBinding


class FilesSystem:
    """System of files of any format below a root (or at absolute paths and URLs): bounded input, and output.

    Options of the binding: ``root``, ``format`` (the default of its streams), ``partitions`` (of inputs that declare
    none; 1), and fsspec's storage options for a root that is a URL. The root of topics is not its own; tests give a
    ``location`` instead of a root.
    """

    def __init__(
        self, name: str, binding: SystemBinding, root: str | None = None, location: Location | None = None
    ) -> None:
        self.name = name
        self.binding = binding
        self._root = location
        self._warned: set[tuple[str, str]] = set()
        options = storage_options(binding.options)
        where = binding.options.get("root")
        if options and (where is None or not is_url(str(where)) or str(where).startswith("file:")):
            unknown = sorted(options)[0]
            raise ConfigError(
                f"System {name!r} (files) has the unknown option {unknown!r}.",
                hint=f"{did_you_mean(unknown, ('root', 'format', 'partitions'))}Its options are root, format and "
                "partitions; a root that is a URL takes fsspec's storage options, too.",
                key=unknown,
            )

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return the declared partition counts of streams whose path exists, and schemas found where none is declared.

        The count never follows from the files found: it would change from run to run. So a written stream that declares
        none is left out, whether its directory exists or not. Offsets are counted only while reading.
        """
        metadata = {}
        for stream in streams:
            if stream.written and stream.partitions is None:
                continue
            root, relative = self._place(stream)
            with storage_errors(path=str(root / relative), stream=stream.name, doing="list"):
                missing = find_missing(root, relative)
            if missing is None or FileOptions.of(stream).allow_missing_path:
                schema = stream.schema
                if schema is None and not stream.written:
                    listing = self._listing(stream)
                    kind = self._format(stream, listing)
                    schema = schema_of_files(root, listing.files, stream, kind, FileOptions.of(stream))
                metadata[stream.name] = StreamMetadata(self._partitions(stream), schema=schema)
        return metadata

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Make the directories of streams that are written."""
        for stream in streams:
            output = self._output(stream)
            with storage_errors(path=str(output), stream=stream.name, doing="write"):
                reject_file(output, stream)
                output.filesystem.create_dir(output.path, recursive=True)

    def arrived(
        self,
        stream: StreamSpec,
        intake: Mapping[str, Any] | None,
        *,
        first_chunk: int = 0,
        all_of_it: bool = False,
        unread: bool = False,
        bounds: Sequence[ColumnBound] = (),
    ) -> dict[str, Any]:
        """Return the range of the files that are new by the record ``intake``; None: the first ones that are read.

        Beside the keys of a range there are ``known``, the record when it has been read, and ``noted``, counts for
        people. ``all_of_it`` takes also what the option ``max_files`` leaves to later, ``unread`` puts all files on
        record that are complete, and reads none. Names of files say nothing of ``bounds``.
        """
        options = FollowOptions.of(stream)
        read = from_plain(FilesRead, intake) if intake is not None else None
        look = find_new_files(self._listed(stream, options.marker), stream, options, read, all_of_it=all_of_it)
        root, _ = self._place(stream)
        files = () if unread else look.new.files
        range_ = fix_chunks(
            root,
            files,
            stream,
            self._format(stream, Listing(files)),
            self._partitions(stream),
            FileOptions.of(stream),
            first_chunk,
            look.read.files,
            self._warned,
        )
        return {**range_, "known": look.record(unread=unread), "noted": look.noted(unread=unread)}

    def location(self, stream: StreamSpec) -> str:
        """Return the folder of a stream, or its file: the same text for all names under which its root is bound."""
        root, relative = self._place(stream)
        return str(root / named_part(relative))

    def look_seconds(self, stream: StreamSpec) -> float:
        """Return how long a continuous run waits between two looks for new files."""
        look_every = FollowOptions.of(stream).look_every
        if look_every is not None:
            return look_every / 1000
        local = isinstance(self._place(stream)[0].filesystem, pafs.LocalFileSystem)
        return 1.0 if local else 10.0  # elsewhere than on a disk a look is a request, which costs money

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        """Return the files of a stream and which partition reads what of them, as JSON.

        A path that does not exist is a ``TopicError``. Keys beside those of every system: ``format``, ``bytes``,
        ``schema`` (DDL, when none is declared), ``files`` (path, size, mtime in ns, Hive columns) and ``splits``: per
        partition [file, start, end] in row groups, stripes or bytes.
        """
        reject_options(stream)
        root, _ = self._place(stream)
        listing = self._listed(stream)
        return fix_slice(
            root, listing, stream, self._format(stream, listing), self._partitions(stream), FileOptions.of(stream)
        )

    def slice_intervals(self, streams: Sequence[StreamSpec]) -> dict[str, Any]:
        """Return the input range of the files of several data intervals, each packed into all partitions by itself."""
        for stream in streams:
            reject_options(stream)
        root, _ = self._place(streams[0])
        listings = [self._listed(stream) for stream in streams]
        kind = self._format(streams[0], Listing(tuple(file for listing in listings for file in listing.files)))
        return fix_intervals(root, listings, streams, kind, self._partitions(streams[0]), FileOptions.of(streams[0]))

    def _listed(self, stream: StreamSpec, marker: str = "") -> Listing:
        """Return the files of a stream; a path that does not exist is rejected."""
        listing = self._listing(stream, marker)
        if listing.missing is not None and not FileOptions.of(stream).allow_missing_path:
            root, relative = self._place(stream)
            rootless = listing.missing.path == root.path
            glob = "a glob" if has_glob(relative) else f'a glob (for example path="{relative.rstrip("/")}/*")'
            raise TopicError(
                f"The {'root' if rootless else 'path'} {listing.missing} of stream {stream.name!r} (system "
                f"{self.name!r}) does not exist.",
                hint="Check the root of the system (in Airflow: of its connection)."
                if rootless
                else "Check the root of the system and the stream's path=. If an interval may have no data, use "
                f'{glob}, or the stream\'s option allow_missing_path="true".',
                path=str(listing.missing),
                stream=stream.name,
                system=self.name,
            )
        return listing

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> FilesConsumer:
        """Return a consumer of a slice; without one, of the files as they are now."""
        return FilesConsumer(self._place(stream)[0], stream, slice if slice is not None else self.slice(stream))

    def producer(self, stream: StreamSpec, writer: str) -> FilesProducer:
        """Return a producer of one try at a task: one file."""
        return FilesProducer(self._output(stream), stream, self._format(stream, None), writer)

    def check_writable(self, stream: StreamSpec) -> None:
        """Reject an output that cannot be written, columns that its format cannot hold, and unknown options."""
        self.producer(stream, "check")
        output = self._output(stream)
        with storage_errors(path=str(output), stream=stream.name, doing="write"):
            reject_file(output, stream)
            write_probe(own_path(output, "staging/.writable"))

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Make an epoch's staged files visible.

        The facts are path, format, rows, bytes, files and what was superseded.
        """
        return publish(self._output(stream), stream, self._format(stream, None), publication)

    def discard(self, stream: StreamSpec, staged: Mapping[str, Any]) -> None:
        """Delete the files that a producer staged and that will never be published."""
        output = self._output(stream)
        with storage_errors(path=str(output), stream=stream.name, doing="write"):
            for file in staged["files"]:
                delete_file(output / str(file["path"]))

    def gone(self, stream: StreamSpec, slice: Mapping[str, Any]) -> str | None:
        """Return the first file of a range that is not there any more, or was written again."""
        root, _ = self._place(stream)
        files = files_of(slice) if "files" in slice else []
        with storage_errors(path=str(root), stream=stream.name, doing="list"):
            infos = root.filesystem.get_file_info([file.path for file in files])
        for file, info in zip(files, infos, strict=True):
            if not info.is_file:
                return f"the file {root.at(file.path)} is not there any more"
            if not is_as_listed(info, file):
                return f"the file {root.at(file.path)} was written again since"
        return None

    def written_rows(self, stream: StreamSpec, written: Written) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files that a task has staged, and that may be published since."""
        return written_rows(self._output(stream), stream, written)

    def standing(self, stream: StreamSpec, producer: str) -> str | None:
        """Return the newest generation of a producer that has published to an output; None when it never has."""
        mine, view = producer_hash(producer, stream.name), self._view(stream)
        generations = [generation for publisher, generation, _ in view.manifests if publisher == mine]
        generations += [past.turn.generation for past in view.turns if past.turn.producer == mine]  # it was replaced
        return max(generations, key=parse_generation, default=None)

    def lost(self, stream: StreamSpec, producer: str, generation: str) -> str | None:
        """Return which file of a generation of an output is missing, or has another size; None: all are there."""
        output, view = self._output(stream), self._view(stream)
        owner = (producer_hash(producer, stream.name), generation)
        if not view.owners.stands(*owner):
            return f"{output} has no manifest of it"
        with storage_errors(path=str(output), stream=stream.name, doing="list"):
            listed = output.entries()
            places = [manifest_path(output, *manifest) for manifest in view.manifests if manifest[:2] == owner]
            named = [file for place in places for file in read_manifest(place).files]
        present = {(str(info.path).rpartition("/")[2], info.size) for info in listed}
        name = next((name for name, _, size in named if (name, size) not in present), None)
        return None if name is None else f"the file {output / name} is missing, or is not as it was written"

    def reject_namesake(self, stream: StreamSpec, producer: str, root: str) -> None:
        """Reject a producer if one of its name, under another root, has published to an output."""
        Namesakes(self._output(stream), stream.name, producer, root).reject_published(self._view(stream))

    def slot_writers(self, stream: StreamSpec, slot: OutputSlot) -> list[SlotWriter]:
        """Return who has written the slots that meet one, of what readers see."""
        return self._view(stream).writers(self._output(stream), slot.code)

    def outside_slots(self, stream: StreamSpec, producers: Iterable[str]) -> list[str]:
        """Return those of some producers whose files readers see, and who wrote them as no slot."""
        outside = self._view(stream).owners.outside()
        return (
            [producer for producer in producers if producer_hash(producer, stream.name) in outside] if outside else []
        )

    def successor(self, stream: StreamSpec, producer: str) -> str | None:
        """Return the producer of the run that has replaced what a producer wrote; None: it stands, or never wrote."""
        successor = self._view(stream).owners.successor(producer_hash(producer, stream.name))
        return winner_at(self._output(stream), SlotTurn(*successor)) if successor is not None else None

    def _view(self, stream: StreamSpec) -> View:
        output = self._output(stream)
        with storage_errors(path=str(output), stream=stream.name, doing="list"):
            return View.of(output)

    def _place(self, stream: StreamSpec) -> tuple[Location, str]:
        """Return the root of a stream and its path below it, from which nothing leads out."""
        root, relative = self._root_and_path(stream)
        check_inside(root, relative, stream, self.name, absolute=root is not self._root)
        return root, relative

    def _root_and_path(self, stream: StreamSpec) -> tuple[Location, str]:
        path = stream.path if stream.path is not None else stream.name
        if is_url(path):
            return _placed(path, storage_options(self.binding.options))
        where = self.binding.options.get("root")
        if self._root is None and where:
            self._root = open_location(str(where), storage_options(self.binding.options), secret=self.binding.secret)
        root = self._root
        if path.startswith("/") and (root is None or not root.prefix):
            return open_location("/"), path.strip("/")
        if root is None:
            raise ConfigError(
                f"System {self.name!r} (files) has no root, and stream {stream.name!r} has no absolute path.",
                hint="Set the option root of the system's connection, or declare an absolute path= or "
                "a URL on the stream.",
                key="root",
            )
        return root, path.strip("/")

    def _listing(self, stream: StreamSpec, marker: str = "") -> Listing:
        root, relative = self._place(stream)
        with storage_errors(path=str(root / relative), stream=stream.name, doing="list"):
            return find_files(root, relative, marker)

    def _output(self, stream: StreamSpec) -> Location:
        root, relative = self._place(stream)
        if has_glob(relative):
            raise TopicError(
                f"The output path {relative!r} of stream {stream.name!r} has a glob in it.",
                hint="An output is one directory; write its name in full.",
                path=relative,
                stream=stream.name,
            )
        return root / relative

    def _format(self, stream: StreamSpec, listing: Listing | None) -> str:
        if stream.format is not None:
            return format_name(stream.format, of=f"Stream {stream.name!r}")
        if self.binding.options.get("format"):
            return format_name(str(self.binding.options["format"]), of=f"System {self.name!r}")
        return detect_format(listing.files, stream.name) if listing is not None else "parquet"

    def _partitions(self, stream: StreamSpec) -> int:
        return partition_count(stream, self.name, self.binding)


def _placed(url: str, options: Mapping[str, object]) -> tuple[Location, str]:
    """Return a stream's own URL as the top of its filesystem and the path below it; ``?`` begins a query there."""
    base, star, rest = url.partition("*")
    location = open_location(base, options)
    top, _, below = location.path.partition("/")
    ending = "/" if base.endswith("/") else ""
    return location.at(top or "/"), (below + (ending if star else "") + star + rest).strip("/")
