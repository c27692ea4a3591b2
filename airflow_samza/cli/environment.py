"""Environments of the command line: bindings of systems and settings.

They come from ``samza.toml``::

    [env.dev]
    root = "/data/samza"                  # topics and run records; a relative path starts at this file's folder
    keep_runs = 100                       # so many runs of an application stay on record,
    keep_runs_days = 30                   # and for so many days
    runner_python = "/opt/environments/etl/bin/python"   # runs stages in another environment than this one

    [env.dev.access]                      # options that open the root; without them its environment does
    region = "eu-central-1"               # (docs/how-to/object-stores.md has their names)
    secret_access_key = { env = "SAMZA_SECRET" }

    [env.dev.systems.logs]
    kind = "files"
    root = "landing/logs"

    [env.dev.systems.events]
    kind = "kafka"
    "bootstrap.servers" = "broker:9092"
    "sasl.password" = { env = "EVENTS_PASSWORD" }   # a secret: read from the environment, never shown

    [env.dev.config]                      # Samza's keys, over those of the application
    "job.intermediate.stream.partitions" = "8"

    [env.dev.spark]                       # Spark's keys
    "spark.driver.memory" = "4g"

In Airflow, connections say the same (``systems={name: conn_id}``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError
from airflow_samza.private_folder import planted_by
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.system_kinds import find_kind
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, RootAccess
from airflow_samza.systems.system import SystemBinding

if TYPE_CHECKING:
    from airflow_samza.systems.filesystems.filesystem import Filesystem

FILE = "samza.toml"
DEFAULT_ROOT = ".samza"
_KEYS = (
    "root",
    "access",
    "default_system",
    "systems",
    "config",
    "spark",
    "runner_python",
    "keep_runs",
    "keep_runs_days",
)


@dataclass(frozen=True)
class Environment:
    """One environment. ``root`` holds topics and run records, ``access`` opens it.

    ``origin`` says where it comes from, ``file`` is its file, if it has one.
    """

    name: str
    root: str
    systems: Mapping[str, SystemBinding] = field(default_factory=dict)
    default_system: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""
    keep: Keep = field(default_factory=Keep)
    access: RootAccess = NO_ACCESS
    runner_python: str = ""
    file: Path | None = None

    @property
    def files(self) -> Filesystem:
        """The files under the root."""
        from airflow_samza.systems.filesystems.opening import open_filesystem

        return open_filesystem(self.root)


def find_environment(
    name: str | None,
    *,
    file: Path | None = None,
    root: str | None = None,
    systems: Sequence[str] = (),
    config: Sequence[str] = (),
    variables: Mapping[str, str] = os.environ,
) -> Environment:
    """Return the environment that the command line asks for.

    What it says itself (``root``, ``systems``, ``config``) wins over the file.

    ``file`` None looks for ``samza.toml`` here and in the folders above; one that somebody else could have put there is
    rejected. Without a name the file's only environment is taken; without a file everything lies under ``.samza`` in
    the current folder.
    """
    config_file = file or _own_file(_nearest_file(Path.cwd()))
    if config_file is None:
        if name is not None:
            raise ConfigError(
                f"There is no {FILE} in {Path.cwd()} or above it, so there is no environment {name!r}.",
                hint=f"Write a {FILE} with [env.{name}], name one with --environments, or use --root and --system "
                "instead of --env.",
                key="--env",
                value=name,
            )
        environment = Environment("none", str(Path.cwd() / DEFAULT_ROOT), origin="the command line")
    else:
        environment = read_environment(config_file, name, variables)
    if root is not None:
        # What opens one root is for that one alone, and for folders below it.
        named = _absolute(root, Path.cwd())
        below = f"{named}/".startswith(f"{environment.root.rstrip('/')}/")
        environment = replace(environment, root=named, access=environment.access if below else NO_ACCESS)
    return with_options(environment, systems, config)


def with_options(environment: Environment, systems: Sequence[str], config: Sequence[str]) -> Environment:
    """Return an environment with the systems and keys that the command line says, over its own."""
    return replace(
        environment,
        systems={**environment.systems, **dict(map(parse_system, systems))},
        config={**environment.config, **dict(map(parse_setting, config))},
    )


def read_environment(file: Path, name: str | None, variables: Mapping[str, str] = os.environ) -> Environment:
    """Return one environment of a file; None: the only one that it has."""
    sections = _sections(file)
    names = ", ".join(sorted(sections))
    if name is None:
        if len(sections) > 1:
            raise ConfigError(
                f"{file} has several environments.", hint=f"Choose one with --env: {names}.", key="--env", value=None
            )
        (name,) = sections
    if name not in sections:
        hint = f"{did_you_mean(name, sections)}It has: {names}."
        raise ConfigError(f"{file} has no environment {name!r}.", hint=hint, key="--env", value=name)
    return _Section(file, name, variables).environment(sections[name])


def _sections(file: Path) -> dict[str, Mapping[str, Any]]:
    """Return the environments of a file, by name: at least one."""
    document = _read_toml(file)
    form = 'Write one: [env.dev] with root = "…".'
    sections = document.get("env", {})
    if not isinstance(sections, dict):
        raise _bad_key(file, "env", f"is not a table but {_kind_of(sections)}", form)
    if not sections:
        raise ConfigError(f"{file} has no environment.", hint=form, key="env", value=str(file))
    for key in document:
        if key != "env":
            raise _bad_key(
                file, key, "is not known", "What belongs to an environment stands in it: [env.dev.systems.logs]."
            )
    for name, section in sections.items():
        if not name:
            raise ConfigError(f"{file} has an environment without a name.", hint=form, key="env", value=str(file))
        if not isinstance(section, dict):
            raise _bad_key(
                file,
                f"env.{name}",
                f"is not a table but {_kind_of(section)}",
                f"Write the environment as [env.{name}].",
            )
    return sections


def parse_system(option: str) -> tuple[str, SystemBinding]:
    """Return the binding that ``--system name=kind:place`` makes.

    >>> parse_system("logs=files:/data/logs")
    ('logs', SystemBinding(kind='files', options={'root': '/data/logs'}))
    >>> parse_system("events=kafka:broker:9092")
    ('events', SystemBinding(kind='kafka', options={'bootstrap.servers': 'broker:9092'}))
    """
    name, equals, rest = option.partition("=")
    kind, colon, place = rest.partition(":")
    if not (name and equals and kind and (place or not colon)):
        raise ConfigError(
            f"--system {option!r} does not say what a system is.",
            hint="Write --system name=kind:place, such as --system logs=files:/data/logs or "
            "--system events=kafka:broker:9092.",
            key="--system",
            value=option,
        )
    if not place:
        return name, SystemBinding(kind)
    system_kind = find_kind(kind)
    key = system_kind.place if system_kind is not None else "root"
    return name, SystemBinding(kind, {key: _absolute(place, Path.cwd()) if key == "root" else place})


def parse_setting(option: str) -> tuple[str, str]:
    """Return the key and the value of ``--config key=value``."""
    key, equals, value = option.partition("=")
    if not (key and equals):
        raise ConfigError(
            f"--config {option!r} is not a setting.", hint="Write --config key=value.", key="--config", value=option
        )
    return key, value


@dataclass(frozen=True)
class _Section:
    """Reader of one ``[env.NAME]``; every error names the file and the key, and no value of a secret."""

    file: Path
    name: str
    variables: Mapping[str, str]

    def environment(self, section: Mapping[str, Any]) -> Environment:
        for key in section:
            if key not in _KEYS:
                raise self.rejection(
                    key,
                    "is not known",
                    f"{did_you_mean(key.rpartition('.')[2], _KEYS)}The keys of an environment are {', '.join(_KEYS)}.",
                )
        root = self.text(section.get("root", DEFAULT_ROOT), "root")
        default, python = section.get("default_system"), section.get("runner_python")
        return Environment(
            name=self.name,
            root=_absolute(root, self.file.parent),
            systems={name: self.binding(name, body) for name, body in self.table(section, "systems").items()},
            default_system=self.text(default, "default_system") if default is not None else None,
            config=self.settings(section, "config"),
            spark_conf=self.settings(section, "spark"),
            keep=Keep(
                int(self.number(section, "keep_runs", Keep().runs)), self.number(section, "keep_runs_days", Keep().days)
            ),
            origin=f"[env.{self.name}] of {self.file}",
            access=RootAccess(
                {key: self.option(value, f"access.{key}") for key, value in self.table(section, "access").items()}
            ),
            runner_python=_absolute(self.text(python, "runner_python"), self.file.parent) if python is not None else "",
            file=self.file,
        )

    def binding(self, name: str, body: Any) -> SystemBinding:
        where = f"systems.{name}"
        if not isinstance(body, dict):
            raise self.rejection(
                where,
                f"is not a table but {_kind_of(body)}",
                f'Write it as [env.{self.name}.{where}] with kind = "files".',
            )
        if "kind" not in body:
            raise self.rejection(
                f"{where}.kind", "is missing", 'Say what kind of system it is: kind = "files" or kind = "log".'
            )
        kind = self.text(body["kind"], f"{where}.kind")
        options: dict[str, Any] = {}
        secret = frozenset(key for key, value in body.items() if isinstance(value, dict))
        for key, value in body.items():
            if key == "root" and key not in secret:
                options[key] = _absolute(self.text(value, f"{where}.root"), self.file.parent)
            elif key != "kind":
                options[key] = self.option(value, f"{where}.{key}")
        return SystemBinding(kind, options, secret)

    def option(self, value: Any, key: str) -> Any:
        """Return the value of an option, which may stand in a variable of the environment."""
        if isinstance(value, dict):
            return self.from_variable(key, value)
        self.plain(value, key)
        return value

    def from_variable(self, key: str, reference: Mapping[str, Any]) -> str:
        if set(reference) != {"env"}:
            raise self.rejection(
                key, "is a table of an unknown form", 'Refer to an environment variable: { env = "NAME" }.'
            )
        variable = self.text(reference["env"], f"{key}.env")
        if variable not in self.variables:
            raise self.rejection(
                key, f"refers to the environment variable {variable}, which is not set", f"Set it: export {variable}=…"
            )
        return self.variables[variable]

    def settings(self, section: Mapping[str, Any], key: str) -> dict[str, str]:
        values: dict[str, str] = {}
        for name, value in _flat(self.table(section, key)):
            self.plain(value, f"{key}.{name}")
            values[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return values

    def plain(self, value: Any, key: str) -> None:
        """Reject what is no single value; the error names its kind and never the value, which may be a secret."""
        if not isinstance(value, str | int | float) or value != value:
            raise self.rejection(
                key, f"is not a text, a number or true or false but {_kind_of(value)}", "Write one of these."
            )

    def number(self, section: Mapping[str, Any], key: str, default: float) -> float:
        value = section.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 1:
            raise self.rejection(key, "is not a number from 1", f"Write one: {key} = {default:g}.")
        return value

    def table(self, section: Mapping[str, Any], key: str) -> dict[str, Any]:
        value = section.get(key, {})
        if not isinstance(value, dict):
            raise self.rejection(key, f"is not a table but {_kind_of(value)}", f"Write it as [env.{self.name}.{key}].")
        return value

    def text(self, value: Any, key: str) -> str:
        form = f'Write it as {key.rpartition(".")[2]} = "…".'
        if not isinstance(value, str):
            raise self.rejection(key, f"is not a text but {_kind_of(value)}", form)
        if not value.strip():
            raise self.rejection(key, "is empty", form)
        if "\0" in value:
            raise self.rejection(key, "holds a NUL character, which no path or name has", form)
        return value

    def rejection(self, key: str, what: str, hint: str) -> ConfigError:
        return _bad_key(self.file, f"env.{self.name}.{key}", what, hint)


def _bad_key(file: Path, key: str, what: str, hint: str) -> ConfigError:
    return ConfigError(f"The key {key} in {file} {what}.", hint=hint, key=key, value=str(file))


def _kind_of(value: Any) -> str:
    """Return the kind of a TOML value, in words."""
    if isinstance(value, float) and value != value:
        return "nan"
    kinds = {
        bool: "true or false",
        str: "a text",
        int: "a whole number",
        float: "a number",
        list: "a list",
        dict: "a table",
    }
    return kinds.get(type(value), "a date or time")


def _flat(table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return settings by dotted key: TOML reads ``a.b = 1`` without quotes as a table in a table."""
    pairs: list[tuple[str, Any]] = []
    waiting = list(table.items())[::-1]
    while waiting:  # no recursion: a dotted key may be as long as it likes
        name, value = waiting.pop()
        if isinstance(value, dict) and value:
            waiting += [(f"{name}.{inner}", held) for inner, held in value.items()][::-1]
        else:
            pairs.append((name, value))
    return pairs


def _absolute(root: str, folder: Path) -> str:
    """Return a path made absolute; a URL stays as it is."""
    return root if "://" in root else str((folder / Path(root).expanduser()).absolute())


def _nearest_file(folder: Path) -> Path | None:
    return next((path for place in (folder, *folder.parents) if (path := place / FILE).is_file()), None)


def _own_file(file: Path | None) -> Path | None:
    """Return a file that was found; reject one that somebody else could have put there: it names what is run.

    Who names a file means it; who only stands in a folder may not know of it.
    """
    if file is None:
        return None
    try:
        why = planted_by(str(file))
    except OSError as error:
        why = f"cannot be looked at ({error.strerror})"
    if why is None:
        return file
    raise ConfigError(
        f"{file} {why}, so somebody else could have planted it: it is not used.",
        hint=f"If you trust it, name it: --config-file {file}. Otherwise put a {FILE} of your own into this folder.",
        key="--config-file",
        value=str(file),
    )


def _read_toml(file: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        from tomllib import loads
    else:
        from tomli import loads
    try:
        document: dict[str, Any] = loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read: {error.strerror}.",
            hint="Name another file.",
            key="--environments",
            value=str(file),
        ) from None
    except RecursionError:
        raise ConfigError(
            f"{file} is nested too deeply.", hint="Correct it there.", key="--environments", value=str(file)
        ) from None
    except ValueError as error:  # not UTF-8, or not TOML
        raise ConfigError(
            f"{file} is not TOML: {error}.", hint="Correct it there.", key="--environments", value=str(file)
        ) from None
    return document
