"""The options of a files stream and of its binding, read from text once and checked.

Streams of files and tables of lakes are read by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.config import MAX_PARTITIONS
from airflow_samza.errors import ConfigError
from airflow_samza.systems.files.following_options import NAMES as FOLLOWING
from airflow_samza.systems.output_slots import MODE, REPLACE, check_mode
from airflow_samza.systems.system import StreamSpec, SystemBinding


class FormatName(NamedTuple):
    """The class of a format, as ``module:name`` in this folder, and what else declarations and files call it."""

    made_by: str
    others: tuple[str, ...] = ()


FORMATS = {
    "parquet": FormatName("parquet:ParquetFormat", ("pq",)),
    "json": FormatName("json_lines:JsonLinesFormat", ("jsonl", "ndjson", "json_lines")),
    "csv": FormatName("csv:CsvFormat"),
    "orc": FormatName("orc:OrcFormat"),
    "avro": FormatName("avro:AvroFormat"),
}
"""The formats of files: the one list of them, for plans, readers, writers and the suites of tests.

Their names are the extensions of files that are written.
"""

_NAMED = {name: kind for kind, known in FORMATS.items() for name in (kind, *known.others)}
CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
"""Arrow's names of the codecs that a file's last extension may name."""


@dataclass(frozen=True)
class FileOptions:
    """Options of a stream of files, as ``StreamSpec.options`` holds them.

    ``allow_missing_columns``: a nullable column that a file lacks is null. ``allow_missing_path``: a literal path that
    does not exist is an empty input. ``truncate_timestamps``: finer units lose what microseconds cannot hold.
    ``multiline``: a quoted CSV value may hold line ends, so a CSV file is read whole; without them it is split.
    ``delimiter``, ``quote``, ``escape``, ``header`` and ``null_value`` are CSV's. ``compression`` is the codec of
    written Parquet, ORC and Avro. ``mode`` is that of an output (rule O1).
    """

    allow_missing_columns: bool = False
    allow_missing_path: bool = False
    truncate_timestamps: bool = False
    multiline: bool = True
    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    null_value: str = ""
    compression: str = ""
    mode: str = REPLACE

    @classmethod
    def of(cls, stream: StreamSpec) -> FileOptions:
        """Return the options of a stream; an unknown name or an impossible value is a :class:`ConfigError`."""
        defaults = {field.name: field for field in fields(cls)}
        values: dict[str, bool | str] = {}
        for name, text in stream.options:
            if name in FOLLOWING and not stream.written:
                continue  # FollowOptions has read it
            if name not in defaults or (name == MODE and not stream.written):
                names = (
                    [*defaults]
                    if stream.written
                    else [*(name for name in defaults if name != MODE), *sorted(FOLLOWING)]
                )
                raise ConfigError(
                    f"Stream {stream.name!r} has the unknown option {name!r}.",
                    hint=did_you_mean(name, names).rstrip() or f"Options of files are {', '.join(names)}.",
                    key=name,
                    value=text,
                )
            values[name] = _boolean(stream, name, str(text)) if isinstance(defaults[name].default, bool) else str(text)
            if name == "compression":
                values[name] = str(text).strip().lower()
        options = cls(**values)  # type: ignore[arg-type]  # each has the type of its default
        check_mode(stream.name, stream.options)
        for name in ("delimiter", "quote", "escape"):
            value = getattr(options, name)
            if len(value.encode()) > 1 or (name == "delimiter" and not value):
                raise ConfigError(
                    f"Option {name!r} of stream {stream.name!r} is {value!r}, which is not one character.",
                    hint='Write one ASCII character, for example delimiter=";" or delimiter="\\t".',
                    key=name,
                    value=value,
                )
        _check_characters(stream, options)
        return options


def _check_characters(stream: StreamSpec, options: FileOptions) -> None:
    """Reject characters of CSV that could be taken for each other."""
    meant: dict[str, str] = {"\r": "a line end", "\n": "a line end"}
    for name in ("delimiter", "quote", "escape"):
        value = getattr(options, name)
        if value and value in meant and (name, meant[value]) != ("escape", "quote"):  # doubled quotes, as some write it
            raise ConfigError(
                f"Option {name!r} of stream {stream.name!r} is {value!r}, which is {meant[value]}.",
                hint="Give delimiter, quote and escape characters of their own.",
                key=name,
                value=value,
            )
        meant.setdefault(value, name)
    for value, name in meant.items():
        if value and value in options.null_value:
            what = name if name == "a line end" else f"the {name} {value!r}"
            raise ConfigError(
                f"Option 'null_value' of stream {stream.name!r} is {options.null_value!r}, which has {what} in it.",
                hint="Give a text that stands for null without quotes and escapes, for example null_value=NULL.",
                key="null_value",
                value=options.null_value,
            )


def _boolean(stream: StreamSpec, name: str, text: str) -> bool:
    if text.strip().lower() in ("true", "1", "yes"):
        return True
    if text.strip().lower() in ("false", "0", "no"):
        return False
    raise ConfigError(
        f"Option {name!r} of stream {stream.name!r} is {text!r}, which is neither true nor false.",
        hint='Write "true" or "false".',
        key=name,
        value=text,
    )


def format_name(value: str, *, of: str) -> str:
    """Return the format that a declaration or a binding names."""
    name = _NAMED.get(value.strip().lower())
    if name is None:
        raise ConfigError(
            f"{of} has the unknown format {value!r}.",
            hint=f"Formats of files are {', '.join(FORMATS)}.",
            key="format",
            value=value,
        )
    return name


def compression_of(path: str) -> str | None:
    """Return the compression that a file's last extension names, None when it is not compressed as a whole.

    >>> compression_of("a/b.jsonl.gz"), compression_of("a/b.snappy.parquet")
    ('gz', None)
    """
    last = path.rpartition(".")[2].lower()
    return last if last in CODECS else None


def format_of_path(path: str) -> str | None:
    """Return the format that a file's extension names, a whole-file compression apart; None when it names none."""
    name = path.rpartition("/")[2].lower()
    if compression_of(name):
        name = name.rpartition(".")[0]
    return _NAMED.get(name.rpartition(".")[2]) if "." in name else None


def partition_count(stream: StreamSpec, system: str, binding: SystemBinding) -> int:
    """Return the partition count that a stream declares, else that of its system's binding, else 1."""
    if stream.partitions is not None:
        return _declared(stream.partitions, of=f"Stream {stream.name!r}")
    return _declared(binding.options.get("partitions") or 1, of=f"System {system!r}")


def _declared(value: object, *, of: str) -> int:
    try:
        count = int(str(value))
    except ValueError:
        count = 0
    if not 1 <= count <= MAX_PARTITIONS:
        hint = f"Give a whole number from 1 to {MAX_PARTITIONS:,}."
        raise ConfigError(f"{of} has {value!r} partitions.", hint=hint, key="partitions", value=value)
    return count


def storage_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return those options of a binding that go to the filesystem."""
    return {
        name: value
        for name, value in options.items()
        if name not in ("root", "format", "partitions") and value is not None
    }
