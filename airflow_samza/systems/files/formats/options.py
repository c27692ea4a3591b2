"""The options of a files stream and of its binding, read from text once and checked.

Streams of files and tables of lakes are read by them. Those of files that keep coming (``slice="checkpoint"``) say
which files are taken, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.application.times import duration_ms
from airflow_samza.config import MAX_PARTITIONS
from airflow_samza.errors import ConfigError, SamzaError
from airflow_samza.systems.output_slots import MODE, REPLACE, check_mode
from airflow_samza.systems.system import StreamSpec, SystemBinding
from airflow_samza.systems.topic_rejections import unknown_value


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


TIME, NAME = "time", "name"
"""The orders of files: by their times of change, then by name; by name alone."""

REJECT, IGNORE, READ = "reject", "ignore", "read"
"""The rules for a file that was written again after it had been read."""

_CHOICES = {"order": (TIME, NAME), "on_rewrite": (REJECT, IGNORE, READ)}
_COUNTS = {"remember": (1, 1_000_000), "max_files": (1, 1_000_000)}


@dataclass(frozen=True)
class FollowOptions:
    """Options of files that keep coming.

    ``order`` is that in which files are read, and forgotten. A file is left alone until it is ``min_age`` (ms) old, or
    until there is its ``marker``: a file of that name in its folder or one above it, or with ``*`` a file beside it,
    where ``*`` stands for its name. ``on_rewrite`` is the rule for a file that was written again. ``remember`` is how
    many files stay on record by name, ``max_files`` how many one run, or one look of a continuous run, takes at most
    (None: all). ``look_every`` (ms) is how often a continuous run looks for new files (None: as the storage suggests).
    """

    order: str = TIME
    min_age: int = 0
    marker: str = ""
    on_rewrite: str = REJECT
    remember: int = 10_000
    max_files: int | None = None
    look_every: int | None = None

    @classmethod
    def of(cls, stream: StreamSpec) -> FollowOptions:
        """Return the options of a stream; an impossible value is a :class:`ConfigError`."""
        values = {name: _READERS[name](stream, name, text) for name, text in stream.options if name in _READERS}
        options = cls(**values)
        if options.marker and options.min_age:
            raise ConfigError(
                f"Stream {stream.name!r} has the options min_age and marker, and each of them alone says when a file "
                "is complete.",
                hint="Keep marker if the writer leaves such files, otherwise min_age.",
                key="min_age",
                value=dict(stream.options)["min_age"],
            )
        return options


FOLLOWING = frozenset(field.name for field in fields(FollowOptions))
"""The names of the options of files that keep coming."""


def reject_options(stream: StreamSpec) -> None:
    """Reject options of files that keep coming on a stream that a run reads as a whole."""
    name = next((name for name, _ in stream.options if name in FOLLOWING), None)
    if name is not None:
        raise ConfigError(
            f'Stream {stream.name!r} has the option {name!r} and no slice="checkpoint", so every run '
            "reads all of its files.",
            hint=f'Declare slice="checkpoint" to read only what is new, or leave {name} out.',
            key=name,
            value=dict(stream.options)[name],
        )


def _choice(stream: StreamSpec, name: str, text: str) -> str:
    value = text.strip().lower()
    if value not in _CHOICES[name]:
        choices = " or ".join(f'"{choice}"' for choice in _CHOICES[name])
        raise unknown_value(stream.name, name, text, f"Write {choices}.")
    return value


def _count(stream: StreamSpec, name: str, text: str) -> int:
    least, most = _COUNTS[name]
    value = int(text) if text.strip().isdecimal() else 0
    if not least <= value <= most:
        raise ConfigError(
            f"Option {name!r} of stream {stream.name!r} is {text!r}, which is no number of files.",
            hint=f"Write a whole number from {least} to {most:,}.",
            key=name,
            value=text,
        )
    return value


def _duration(stream: StreamSpec, name: str, text: str) -> int:
    try:
        return duration_ms(text, zero=name == "min_age")
    except SamzaError as error:
        raise ConfigError(
            f"Option {name!r} of stream {stream.name!r} is {text!r}, which is no length of time.",
            hint='Write a number and a unit, for example "30 seconds" or "5 minutes".',
            key=name,
            value=text,
        ) from error


def _marker(stream: StreamSpec, name: str, text: str) -> str:
    value = text.strip()
    if not value.strip("*") or "/" in value or value.count("*") > 1:
        raise ConfigError(
            f"Option 'marker' of stream {stream.name!r} is {text!r}, which names no file.",
            hint='Write the name of a file that says a folder is complete ("_SUCCESS"), or a name with one * for the '
            'file that it belongs to ("*.done").',
            key="marker",
            value=text,
        )
    return value


_READERS: dict[str, Callable[[StreamSpec, str, str], Any]] = {
    **dict.fromkeys(_CHOICES, _choice),
    **dict.fromkeys(_COUNTS, _count),
    "min_age": _duration,
    "look_every": _duration,
    "marker": _marker,
}
"""Readers of the options, each of a text."""
