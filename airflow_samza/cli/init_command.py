"""``airflow-samza init``: a first application, its test, a Dag and an environment, as files to begin from."""

from __future__ import annotations

import keyword
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from airflow_samza.errors import ConfigError

APPLICATION = '''"""Counts page views per country."""

from dataclasses import dataclass

from airflow_samza import count, stream_application


@dataclass(frozen=True)
class PageView:
    member_id: int
    country: str


@stream_application("@ID@")  # this name, not the function's, goes into topics, ids and state
def @NAME@(app):
    views = app.input_stream("page-views", system="logs", schema=PageView, path="page-views", partitions=2)
    (
        views.where("member_id > 0")
        .partition_by("country", id="by-country")  # an intermediate topic: a stage ends here, another begins
        .aggregate("country", views=count(), id="per-country")
        .send_to(app.output_stream("views-per-country", system="warehouse", path="views-per-country"))
    )
'''

TEST = '''"""The application in memory, planned and run by the code that Spark's tasks run."""

from airflow_samza.testing import TestDriver
from pipelines.@NAME@ import @NAME@, PageView


def test_views_are_counted_per_country():
    driver = TestDriver(@NAME@)
    driver.pipe("page-views", [PageView(1, "NL"), PageView(2, "NL"), PageView(3, "SE"), PageView(0, "SE")])
    found = {row.country: row.views for row in driver.run().output("views-per-country")}
    assert found == {"NL": 2, "SE": 1}
'''

DAG = '''"""The application as a Dag: plan, a task per stage, cleanup."""

from airflow_samza import SamzaDag

SamzaDag(
    "@NAME@",
    application="pipelines.@NAME@:@NAME@",
    schedule=None,
    conn_id="samza_default",  # a connection of type samza, whose root is where topics and run records lie
    systems={"logs": "@NAME@_logs", "warehouse": "@NAME@_warehouse"},  # connections of type fs (File path)
)
'''

ENVIRONMENT = """# airflow-samza run pipelines.@NAME@:@NAME@
[env.dev]
root = ".samza"                       # topics and run records

[env.dev.systems.logs]
kind = "files"
root = "landing"

[env.dev.systems.warehouse]
kind = "files"
root = "warehouse"
"""

VIEWS = """{"member_id": 1, "country": "NL"}
{"member_id": 2, "country": "NL"}
{"member_id": 3, "country": "SE"}
"""


def files_of(name: str) -> dict[str, str]:
    """Return the texts that ``init`` writes, by path below its folder."""
    texts = {
        f"pipelines/{name}.py": APPLICATION,
        f"tests/test_{name}.py": TEST,
        f"dags/{name}_dag.py": DAG,
        "samza.toml": ENVIRONMENT,
        "landing/page-views/part-00000.json": VIEWS,
        "conftest.py": '"""Lets pytest find pipelines/ from here."""\n',
    }
    return {path: text.replace("@NAME@", name).replace("@ID@", name.replace("_", "-")) for path, text in texts.items()}


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="The folder to write. Default: this one.", show_default=False)
    ] = Path("."),
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The name of the application's module.")
    ] = "page_views",
) -> None:
    """Write a first application, its test, a Dag, samza.toml and some input. Existing files are never replaced."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConfigError(
            f"--name {name!r} is not the name of a module.",
            hint="Use small letters, digits and _, such as page_views.",
            key="--name",
            value=name,
        )
    texts = files_of(name)
    existing = [path for path in texts if os.path.lexists(folder / path)]
    if existing:
        raise ConfigError(
            f"{folder / existing[0]} is there already, and nothing was written.",
            hint="Choose another folder, or another --name.",
            key="FOLDER",
            value=str(folder),
        )
    for path, text in texts.items():
        try:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{folder / path} cannot be written: {error.strerror}.",
                hint="Choose another folder.",
                key="FOLDER",
                value=str(folder),
            ) from None
        typer.echo(f"Wrote {folder / path}")
    typer.echo(
        f"Next: cd {folder}; python -m pytest; airflow-samza plan pipelines.{name}:{name}; "
        f"airflow-samza run pipelines.{name}:{name}"
    )
