"""Options of a stream of files that is read with ``slice="checkpoint"``: which files are taken, and when.

The options of files hold them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from airflow_samza.application.times import duration_ms
from airflow_samza.errors import ConfigError, SamzaError
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.topic_rejections import unknown_value

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


NAMES = frozenset(field.name for field in fields(FollowOptions))
"""The names of these options."""


def reject_options(stream: StreamSpec) -> None:
    """Reject these options on a stream that a run reads as a whole."""
    name = next((name for name, _ in stream.options if name in NAMES), None)
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
