"""The setting ``[samza] warm_runners``: how many Sparks of a host stay for the next run, and for how long.

A *warm runner* is a Java with a Spark that has started, which is lent to one run after another. ``2`` keeps two of
them; ``2,idle=600,runs=50,age=21600,memory=4096`` also sets its bounds: seconds without a run, runs, seconds since its
start, and MiB of all its processes. The setting is read from Airflow's configuration, and in the environment from
``AIRFLOW__SAMZA__WARM_RUNNERS``, also by the command line (decision 89).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError

VARIABLE = "AIRFLOW__SAMZA__WARM_RUNNERS"
"""The setting in the environment, for Airflow and for the command line."""

KEY = "[samza] warm_runners"

_FORM = "Write a number of runners, optionally followed by bounds: 2,idle=600,runs=50,age=21600,memory=4096."


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

    def __str__(self) -> str:
        return f"{self.most},idle={self.idle:g},runs={self.runs},age={self.age:g},memory={self.memory}"


_BOUNDS = tuple(field.name for field in fields(WarmRunners))[1:]


def parse_warm_runners(text: str) -> WarmRunners:
    """Return the setting; :class:`~airflow_samza.errors.ConfigError` when it is none.

    >>> parse_warm_runners("2,idle=60")
    WarmRunners(most=2, idle=60.0, runs=50, age=21600.0, memory=4096)
    """
    most, *bounds = (part.strip() for part in text.split(","))
    if not most:
        return WarmRunners()
    bounds_by_name: dict[str, float] = {"most": _number(text, most)}
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
    """Return the setting that is given, else that of the environment; without either there are none."""
    if isinstance(setting, WarmRunners):
        return setting
    return parse_warm_runners(setting if setting is not None else os.environ.get(VARIABLE, ""))


def _number(text: str, value: str, least: int = 0) -> int:
    if not value.isdecimal() or not value.isascii() or not least <= int(value) < 2**31:
        raise ConfigError(
            f"{KEY} is {text!r}, and {value!r} is no whole number from {least}.", hint=_FORM, key=KEY, value=text
        )
    return int(value)
