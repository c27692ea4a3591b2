"""Configuration keys of choosers that name nothing of the application: a priority that nobody has would be lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.rejections import did_you_mean, listed, nearest
from airflow_samza.config import BATCH_SIZE, CHOOSER_CLASS, CHOOSER_WAIT_FOR_HEAD, Config
from airflow_samza.errors import ConfigError
from airflow_samza.system_kinds import EMBEDDED

_PRIORITIES = "task.chooser.priorities."
_KEYS = (CHOOSER_CLASS, CHOOSER_WAIT_FOR_HEAD, BATCH_SIZE)
_SETTINGS = ("priority", "bootstrap")
_STREAM_KEY = re.compile(r"(?:systems\.(?P<system>.+?)\.)?streams\.(?P<stream>.+)\.samza\.(?P<setting>.+)")


@dataclass(frozen=True)
class _Read:
    """A stream that the application reads; ``systems`` are the names of its system, none where none is known yet."""

    stream_id: str
    name: str
    systems: tuple[str, ...]

    def is_named(self, system: str, stream: str) -> bool:
        return stream == self.name and (not self.systems or system in self.systems)

    def names(self, system: str) -> Iterator[str]:
        """Yield its names ``system.stream``; ``system`` is what somebody has written."""
        return (f"{each}.{self.name}" for each in self.systems or (system,))


def check_chooser_keys(spec: ApplicationSpec, config: Config, systems: Mapping[str, str]) -> None:
    """Reject a key of choosers that names no key, or no stream that the application reads (rules M3, M4).

    ``systems`` are those in which streams lie, by stream id, as far as they are known. Without them a key may name any
    system for a stream of which the application says none.
    """
    read_ids = dict.fromkeys([*spec.inputs, *spec.side_inputs, *spec.intermediates])
    read = [_read(spec, config, stream_id, systems.get(stream_id)) for stream_id in read_ids]
    for key in config:
        if config.text(key) is None:
            continue
        if key.startswith(_PRIORITIES):
            system, _, stream = key.removeprefix(_PRIORITIES).partition(".")
            if not any(each.is_named(system, stream) for each in read):
                meant = [each for each in read if each.name == (stream or system)] or read
                keys = [f"{_PRIORITIES}{name}" for each in meant for name in each.names(system if stream else EMBEDDED)]
                raise _names_no_stream(key, keys, read, config)
        elif key.startswith(("task.chooser.", "task.consumer.")) and key not in _KEYS:
            raise _no_key(key, _KEYS, config)
        elif (match := _STREAM_KEY.fullmatch(key)) is not None:
            _check_stream_key(key, match, read, config)


def _check_stream_key(key: str, match: re.Match[str], read: list[_Read], config: Config) -> None:
    system, stream, setting = match["system"], match["stream"], match["setting"]
    if setting not in _SETTINGS:  # Samza has more keys of streams, of which none is much like these
        if meant := nearest(setting, _SETTINGS, 0.75):
            raise _no_key(key, [key.removesuffix(setting) + meant], config)
        return
    if system is None:
        if all(each.stream_id != stream for each in read):
            raise _names_no_stream(key, [f"streams.{each.stream_id}.samza.{setting}" for each in read], read, config)
    elif not any(each.is_named(system, stream) for each in read):
        names = chain.from_iterable(each.names(system) for each in read)
        keys = [f"systems.{name.replace('.', '.streams.', 1)}.samza.{setting}" for name in names]
        raise _names_no_stream(key, keys, read, config)


def _read(spec: ApplicationSpec, config: Config, stream_id: str, bound: str | None) -> _Read:
    declared = config.text(f"streams.{stream_id}.samza.system") or spec.stream(stream_id).system
    declared = declared or config.text("job.default.system") or spec.default_system
    names = [name for name in (bound, declared) if name is not None]
    return _Read(stream_id, spec.stream(stream_id).physical_name(config), tuple(dict.fromkeys(names)))


def _no_key(key: str, keys: list[str] | tuple[str, ...], config: Config) -> ConfigError:
    return ConfigError(
        f"{key} in {config.source} is no key of choosers.",
        hint=f"{did_you_mean(key, keys)}The keys are {listed(_KEYS)}, {_PRIORITIES}<system>.<stream>, "
        "streams.<id>.samza.priority and streams.<id>.samza.bootstrap.",
        key=key,
        source=config.source,
    )


def _names_no_stream(key: str, keys: list[str], read: list[_Read], config: Config) -> ConfigError:
    streams = [each.name if not each.systems else f"{each.systems[0]}.{each.name}" for each in read]
    return ConfigError(
        f"{key} in {config.source} names no stream that the application reads.",
        hint=f"{did_you_mean(key, keys)}It reads {listed(streams)}.",
        key=key,
        source=config.source,
    )
