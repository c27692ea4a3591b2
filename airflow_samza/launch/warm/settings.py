"""The setting ``[samza] warm_runners``: how many Sparks of a host stay for the next run, for how long, in what memory.

A *warm runner* is a Java with a Spark that has started, which is lent to one run after another. ``2`` keeps two of
them; ``2,idle=600,runs=50,age=21600,memory=4096`` also sets its bounds: seconds without a run, runs, seconds since its
start, and MiB of all its processes. ``off`` (or ``0``) keeps none. Without a setting there are two, as far as memory
allows (:func:`why_not_kept`, :func:`why_to_leave`). The setting is read from Airflow's configuration, and in the
environment from ``AIRFLOW__SAMZA__WARM_RUNNERS``, also by the command line (decision 116).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError

if TYPE_CHECKING:
    from airflow_samza.launch.java.container_limits import MemoryRoom

VARIABLE = "AIRFLOW__SAMZA__WARM_RUNNERS"
"""The setting in the environment, for Airflow and for the command line."""

KEY = "[samza] warm_runners"

_FORM = "Write off, or a number of runners, optionally followed by bounds: 2,idle=600,runs=50,age=21600,memory=4096."


_MIB = 1 << 20

LEAST_FREE = 512 * _MIB
"""The bytes that stay free in any case; where a person waits for runs, on the command line, this is the only bound."""

NEEDED = 700 * _MIB
"""The bytes of an idle warm runner, by which one that would not be kept is not started either."""

KEPT_SHARE, LEFT_SHARE = 3, 6
"""The part of a limit that has to be free when a run ends, and the part below which an idle warm runner leaves."""

STALLED = 1.0
"""The share of time, in per cent, for which processes may wait for memory."""


@dataclass(frozen=True)
class WarmRunners:
    """The number of warm runners that a host keeps (``most``; 0: none), and the bounds of each."""

    most: int = 0
    idle: float = 600.0
    """Seconds without a run after which one ends."""
    runs: int = 50
    """Runs after which one is replaced."""
    age: float = 21_600.0
    """Seconds since its start after which one is replaced, between two runs."""
    memory: int = 4096
    """MiB of all its processes between two runs, beyond which one is replaced."""

    def __bool__(self) -> bool:
        return self.most > 0


DEFAULT = "2"
"""The setting where there is none: a run of a local master may leave its Spark to the next."""

_WORDS = {"": 0, "off": 0, "on": int(DEFAULT)}

_BOUNDS = tuple(field.name for field in fields(WarmRunners))[1:]


def parse_warm_runners(text: str) -> WarmRunners:
    """Return the setting; :class:`~airflow_samza.errors.ConfigError` when it is none.

    >>> parse_warm_runners("2,idle=60")
    WarmRunners(most=2, idle=60.0, runs=50, age=21600.0, memory=4096)
    """
    most, *bounds = (part.strip() for part in text.split(","))
    number = _WORDS.get(most.lower())
    bounds_by_name: dict[str, float] = {"most": _number(text, most) if number is None else number}
    for bound in bounds:
        name, _, value = (word.strip() for word in bound.partition("="))
        if name not in _BOUNDS or name in bounds_by_name:
            why = "a bound that is there already" if name in _BOUNDS else "no bound of warm runners"
            raise ConfigError(
                f"{KEY} is {text!r}, and {bound!r} is {why}.",
                hint=f"{did_you_mean(name, _BOUNDS)}{_FORM}",
                key=KEY,
                value=text,
            )
        bounds_by_name[name] = _number(text, value, least=1)
    return WarmRunners(
        int(bounds_by_name["most"]),
        float(bounds_by_name.get("idle", WarmRunners.idle)),
        int(bounds_by_name.get("runs", WarmRunners.runs)),
        float(bounds_by_name.get("age", WarmRunners.age)),
        int(bounds_by_name.get("memory", WarmRunners.memory)),
    )


def configured_warm_runners(setting: str | WarmRunners | None = None) -> WarmRunners:
    """Return the setting that is given, else that of the environment, else the default."""
    if isinstance(setting, WarmRunners):
        return setting
    return parse_warm_runners(setting if setting is not None else os.environ.get(VARIABLE, DEFAULT))


def _number(text: str, value: str, least: int = 0) -> int:
    if not value.isdecimal() or not value.isascii() or not least <= int(value) < 2**31:
        raise ConfigError(
            f"{KEY} is {text!r}, and {value!r} is no whole number from {least}.", hint=_FORM, key=KEY, value=text
        )
    return int(value)


def why_not_kept(rooms: Sequence[MemoryRoom], *, is_for_commands: bool, needed: int = 0) -> str:
    """Return why no warm runner that takes ``needed`` further bytes may stay for the next run; empty where one may.

    >>> from airflow_samza.launch.java.container_limits import MemoryRoom
    >>> gib = 1 << 30
    >>> why_not_kept([MemoryRoom("this host", 6 * gib, gib)], is_for_commands=False)
    'of the 6144 MiB of this host 1024 MiB are free, less than 2048'
    >>> why_not_kept([MemoryRoom("this host", 6 * gib, gib)], is_for_commands=True)
    ''
    """
    return _first_short(rooms, 0 if is_for_commands else KEPT_SHARE, needed)


def why_to_leave(rooms: Sequence[MemoryRoom], *, is_for_commands: bool) -> str:
    """Return why an idle warm runner leaves its memory to others; empty where it may stay."""
    for room in rooms:
        if room.stalled >= STALLED:
            return f"processes of {room.of} wait for memory ({room.stalled:g} % of ten seconds)"
    return _first_short(rooms, 0 if is_for_commands else LEFT_SHARE, 0)


def _first_short(rooms: Sequence[MemoryRoom], share: int, needed: int) -> str:
    for room in rooms:
        least = max(room.limit // share if share else 0, LEAST_FREE)
        if room.free - needed < least:
            more = f", a warm runner takes {needed // _MIB}" if needed else ""
            return (
                f"of the {room.limit // _MIB} MiB of {room.of} {room.free // _MIB} MiB are free{more}, "
                f"less than {least // _MIB}{' would be left' if needed else ''}"
            )
    return ""
