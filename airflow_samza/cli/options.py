"""Options that several commands share: the application, and the environment."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.cli.environment import Environment, find_environment, with_options
from airflow_samza.errors import ConfigError
from airflow_samza.systems.filesystems.root_access import give_access

Application = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="The application, as package.module:attribute. The current folder is on the Python path.",
        show_default=False,
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[APP] [RUN]",
        help="An application, a run, or both. Default: the newest run.",
        show_default=False,
    ),
]
Env = Annotated[
    str | None, typer.Option("--env", "-e", metavar="NAME", help="The environment: the section env.NAME of samza.toml.")
]
Environments = Annotated[
    Path | None,
    typer.Option(
        "--config-file",
        "--environments",
        metavar="FILE",
        help="The file of environments. Default: samza.toml in this folder or one above.",
    ),
]
Root = Annotated[
    str | None,
    typer.Option(
        "--root",
        metavar="DIR",
        help="The root: the folder or URL of topics and run records. Default: that of the "
        "environment, otherwise .samza.",
    ),
]
System = Annotated[
    list[str] | None,
    typer.Option(
        "--system",
        "-s",
        metavar="NAME=KIND:PLACE",
        help="Bind a system: logs=files:/data/logs, events=kafka:broker:9092. Can be repeated.",
    ),
]
Config = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="Set a configuration key. Can be repeated."),
]
Interval = Annotated[
    str | None,
    typer.Option(
        "--interval",
        "-i",
        metavar="START/END",
        help="The data interval, as two ISO dates or times, or as the first and a length (P1D, PT6H), in UTC unless "
        "they have a zone.",
    ),
]
PartitionKey = Annotated[
    str | None,
    typer.Option(
        "--partition-key",
        metavar="KEY",
        help="The partition key of the data, as of a partitioned Dag run. One that is a date (2026-01-31, 2026-01, "
        "2026-01-31T05) gives the data interval that it names, in UTC. A later run for the same key and interval "
        "replaces what this one writes.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="The Spark master: local[2], spark://host:7077, yarn, k8s://…, "
        "sc://host:15002. Default: that of the environment, otherwise local[*].",
    ),
]
DeployMode = Annotated[
    str | None,
    typer.Option(
        "--deploy-mode", metavar="MODE", help="The place where spark-submit starts the driver: client or cluster."
    ),
]

RunnerPython = Annotated[
    str | None,
    typer.Option(
        "--runner-python",
        metavar="PATH",
        help="The Python program of another environment that runs the stage runner "
        "(the driver process) and its workers.",
    ),
]

ConnId = Annotated[
    str | None,
    typer.Option(
        "--conn-id", metavar="ID", help="The Airflow connection of type samza to use in place of an environment."
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

Format = Annotated[str, typer.Option("--format", "-f", metavar="FORMAT", help="text, or json as --json.", hidden=True)]
"""Another way to say ``--json``, for commands without other formats."""

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@dataclass(frozen=True)
class Place:
    """The options by which a command line names its environment."""

    env: Env = None
    environments: Environments = None
    root: Root = None
    system: System = None
    config: Config = None
    conn_id: ConnId = None

    @property
    def is_named(self) -> bool:
        """Return whether the command line names a root, a system or an environment."""
        named = (self.env, self.environments, self.root, self.conn_id)
        return any(value is not None for value in named) or bool(self.system)

    @functools.cached_property
    def environment(self) -> Environment:
        """The environment, of which is said once from which file it is; this process opens its root as it says."""
        if self.conn_id is not None:
            return self._of_connection(self.conn_id)
        environment = find_environment(
            self.env, file=self.environments, root=self.root, systems=self.system or (), config=self.config or ()
        )
        give_access(environment.root, environment.access)
        if environment.file is not None:
            typer.echo(f"Environment: {environment.origin}.", err=True)
        return environment

    def _of_connection(self, conn_id: str) -> Environment:
        """Return the root of a Samza connection, and what opens it; this process opens it so from now on.

        Systems are bound by connections in Dag files alone, so there are none but those that are named here.
        """
        for option, value in (("--env", self.env), ("--config-file", self.environments), ("--root", self.root)):
            if value is not None:
                raise ConfigError(
                    f"--conn-id {conn_id} and {option} {value} both say where the root is.",
                    hint="Give one of them.",
                    key="--conn-id",
                    value=conn_id,
                )
        from airflow_samza.provider.hooks.samza import SamzaHook

        with looking_in_database():
            hook = SamzaHook(conn_id)
            found = Environment(conn_id, hook.root, origin=f"the connection {conn_id!r}", access=hook.access)
        return with_options(found, self.system or (), self.config or ())


ROOT = ("env", "environments", "root", "conn_id")
"""The options of a command that reads records and topics only."""

SYSTEMS = (*ROOT, "system")
"""The options of a command that reads other systems, too."""

EVERYTHING = (*SYSTEMS, "config")
"""The options of a command that plans an application."""

_PLACE_OPTIONS = inspect.signature(Place, eval_str=True).parameters


def at_place(names: tuple[str, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a :class:`Place` that are ``names``.

    It gets them as one, its parameter ``place``.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called(**arguments: Any) -> None:
            place = Place(**{name: arguments.pop(name) for name in names})
            command(place=place, **arguments)

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            parameters += [_PLACE_OPTIONS[name] for name in names] if parameter.name == "place" else [parameter]
        # What Typer makes options of; mypy does not know that functions may have it.
        called.__signature__ = inspect.Signature([p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters])  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorated


_PROCESS = "_AIRFLOW_PROCESS_CONTEXT"

SAY_YES = "Answer y, or give --yes."


def check_format(form: str, formats: Sequence[str]) -> str:
    """Return ``form`` when it is one of those that ``--format`` may have; else reject it."""
    if form not in formats:
        raise ConfigError(
            f"--format {form!r} is not known.",
            hint=f"{did_you_mean(form, formats)}Choose one of {', '.join(formats)}.",
            key="--format",
            value=form,
        )
    return form


def is_json(form: str) -> bool:
    """Return whether ``--format``, which is text or json, says the same as ``--json``."""
    return check_format(form, ("text", "json")) == "json"


def at_most_two(names: Sequence[str] | None, word: str) -> Sequence[str]:
    """Return the words that name a run for the command ``word``: of its application, and its id; more are rejected."""
    if len(names or ()) > 2:
        raise ConfigError(
            "At most two words name a run.",
            hint=f"Write: airflow-samza {word} APP RUN.",
            key="RUN",
            value=" ".join(names or ()),
        )
    return names or ()


def look_from_here() -> None:
    """Put the current folder on the Python path, as ``python -m`` does, so that applications are found."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def looking_in_database() -> AbstractContextManager[None]:
    """Have Airflow look connections up in its database, too, as its own commands do.

    Without the variable it takes a process that is none of its own for a task's, which asks the API server.
    """
    from airflow_samza.launch.programs import variables_set

    return variables_set({_PROCESS: os.environ.get(_PROCESS) or "server"})
