"""Options that several commands share: which application, and which environment."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

Application = Annotated[
    str,
    typer.Argument(
        metavar="APP", help="The application: package.module:attribute, looked for from the current folder on.", show_default=False
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[APP] [RUN]", help="An application, a run, or both; without a word the newest run of all.", show_default=False),
]
Env = Annotated[str | None, typer.Option("--env", "-e", metavar="NAME", help="The environment: [env.NAME] in samza.toml.")]
Environments = Annotated[
    Path | None,
    typer.Option("--environments", metavar="FILE", help="The file of environments; otherwise samza.toml here or in a folder above."),
]
Root = Annotated[
    str | None,
    typer.Option("--root", metavar="DIR", help="Where topics and run records lie; otherwise the environment's, or .samza here."),
]
System = Annotated[
    list[str] | None,
    typer.Option(
        "--system", "-s", metavar="NAME=KIND:ROOT", help="Bind a system, such as logs=files:/data/logs. May be given several times."
    ),
]
Config = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help="Set one of Samza's configuration keys. May be given several times."),
]
Interval = Annotated[
    str | None, typer.Option("--interval", "-i", metavar="START/END", help="The data interval, in ISO form; without a zone: UTC.")
]


def look_from_here() -> None:
    """Puts the current folder on the Python path, as ``python -m`` does, so that applications are found."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
