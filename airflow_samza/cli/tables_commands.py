"""``airflow-samza tables``: pushed tables and their versions, manual pushes, and rollbacks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from airflow_samza.cli.options import (
    EVERYTHING,
    ROOT,
    Application,
    DeployMode,
    Interval,
    Json,
    Master,
    Place,
    RunnerPython,
    at_place,
    look_from_here,
)
from airflow_samza.cli.terminal import columns, json_line, say, say_json
from airflow_samza.errors import ConfigError
from airflow_samza.records import plain
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.compacting import COMPACT_AFTER
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.table_version import FULL, ROLLBACK, TableVersion, describe_push, now, rollback_text
from airflow_samza.runs.tables.versions import PREVIOUS
from airflow_samza.system_kinds import EMBEDDED
from airflow_samza.systems.bindings import UNDER_ROOT, bind_system

tables = typer.Typer(help="List, push and roll back pushed tables.", no_args_is_help=True)

Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table's id.", show_default=False)]
Named = Annotated[str, typer.Option("--log-system", metavar="NAME", help="The system of the pushes.")]
PushId = Annotated[
    str | None,
    typer.Option(
        "--push-id", metavar="ID", help="The unique id of the push; a known id finds its version. Default: the time."
    ),
]


@tables.command("list", epilog="Example: airflow-samza tables list")
@at_place(ROOT)
def list_tables(place: Place, as_json: Json = False) -> None:
    """List pushed tables with their current versions."""
    files = place.environment.files
    newest_versions = [
        (folder, versions.newest(files, folder.system, folder.topic)) for folder in versions.tables(files)
    ]
    if as_json:
        say_json(
            {"table": version.table, "system": folder.system, "stream": folder.topic, **plain(version)}
            for folder, version in newest_versions
            if version is not None
        )
        return
    rows: list[list[object]] = [
        [v.table, folder.system, folder.topic, v.number, v.kind, v.base_rows, _at(v.current_from)]
        for folder, v in newest_versions
        if v is not None
    ]
    heading = ["TABLE", "SYSTEM", "STREAM", "VERSION", "KIND", "ROWS", "CURRENT FROM (UTC)"]
    say(columns(heading, rows) if rows else "No table was pushed.")


@tables.command("versions", epilog="Example: airflow-samza tables versions members")
@at_place(ROOT)
def show_versions(place: Place, table: Table, system: Named = EMBEDDED, as_json: Json = False) -> None:
    """List the versions of a table, oldest first: push, time from which it was current, rows."""
    files = place.environment.files
    topic = f"{table}-push"
    kept, expired = versions.versions(files, system, topic), versions.expired_numbers(files, system, topic)
    current = versions.newest(files, system, topic)
    if as_json:
        say_json(
            {**plain(version), "expired": version.number in expired, "current": version == current} for version in kept
        )
    elif kept and current is not None:
        say(versions_text(kept, expired, current))
    else:
        say(f"Nothing was pushed to table {table!r}.")


@tables.command(epilog="Example: airflow-samza tables push page_views:page_views members /data/members.parquet")
@at_place(EVERYTHING)
def push(
    place: Place,
    application: Application,
    table: Table,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A path, or a source of SamzaTablePushOperator as JSON: '{\"query\": …}', or "
            '\'{"iceberg": "web.members", "system": "lake"}\'.',
            show_default=False,
        ),
    ],
    interval: Interval = None,
    push_id: PushId = None,
    master: Master = None,
    deploy_mode: DeployMode = None,
    runner_python: RunnerPython = None,
    mode: Annotated[
        str,
        typer.Option(
            "--mode",
            help="full replaces all rows; incremental changes the rows of the keys that come, or "
            "of a lake's table those that have changed.",
        ),
    ] = FULL,
    columns_: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="A,B",
            help="The columns of the source to take, or SQL by "
            "column of the table as JSON. Default: the table's columns.",
        ),
    ] = None,
    deletes: Annotated[
        str | None,
        typer.Option(
            "--deletes",
            metavar="SQL",
            help="A condition; rows of an incremental push for which it is true delete their key.",
        ),
    ] = None,
    on_null_key: Annotated[str, typer.Option("--on-null-key", help="Rows without a key: fail or drop.")] = "fail",
    on_duplicate: Annotated[
        str, typer.Option("--on-duplicate", help="Keys that come twice: fail, last or any.")
    ] = "fail",
    latest_by: Annotated[
        str | None,
        typer.Option("--latest-by", metavar="COLUMN", help="The column by which the last row of a key is chosen."),
    ] = None,
    min_rows: Annotated[
        int | None,
        typer.Option(
            "--min-rows",
            help="The smallest number of rows; a smaller push is rejected. Default: 1, of an incremental push 0.",
        ),
    ] = None,
    max_change_ratio: Annotated[
        float | None,
        typer.Option(
            "--max-change-ratio",
            help="The greatest difference from the current version: 0.2 "
            "is a fifth of its rows, inf allows any. Default: a full push may lose half.",
        ),
    ] = None,
    keep: Annotated[int, typer.Option("--keep", metavar="N", help="The number of versions to keep.")] = 10,
    compact_after: Annotated[
        int,
        typer.Option(
            "--compact-after",
            metavar="N",
            help="The number of incremental pushes after which the rows are written as one section; 0: never.",
        ),
    ] = COMPACT_AFTER,
    as_json: Json = False,
) -> None:
    """Push a table from anything that Spark reads, or from a table of a lake, as a new version."""
    from airflow_samza.cli.run_command import named_by_clock, parse_interval, runtime_of

    look_from_here()
    environment = place.environment
    runtime = runtime_of(environment, master, deploy_mode, runner_python)
    name = push_id or named_by_clock("cli")
    handle = runtime.push(
        application,
        table,
        _from_here(_parsed("SOURCE", source)),
        name,
        interval=parse_interval(interval),
        config=environment.config,
        mode=mode,
        columns=_columns(columns_),
        deletes=deletes,
        on_null_key=on_null_key,
        on_duplicate=on_duplicate,
        latest_by=latest_by,
        min_rows=min_rows,
        max_change_ratio=max_change_ratio,
        keep_versions=keep,
        compact_after=compact_after,
    )
    try:
        runtime.wait(handle, on_progress=lambda status: say(f"Push {name}: {status}", err=True))
    except BaseException:
        runtime.cancel(handle)
        raise
    version = runtime.finish_push(handle)
    say(json_line({**plain(version), "is_new": version.push_id == name}) if as_json else describe_push(version, name))


@tables.command(epilog="Example: airflow-samza tables rollback members --to previous")
@at_place(ROOT)
def rollback(
    place: Place,
    table: Table,
    system: Named = EMBEDDED,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="VERSION", help="The version to return to: previous, a number, or the id of its push."
        ),
    ] = PREVIOUS,
    push_id: PushId = None,
) -> None:
    """Make an older version of a table current again, as a new version."""
    environment = place.environment
    files = environment.files
    bound = bind_system(system, environment.systems.get(system) or UNDER_ROOT, environment.root)
    new_version = versions.rollback(files, system, f"{table}-push", to, push_id or f"cli-rollback-{now()}", bound)
    say(rollback_text(new_version, versions.newest(files, system, f"{table}-push")))


@tables.command(epilog="Example: airflow-samza tables compact members")
@at_place(EVERYTHING)
def compact(place: Place, table: Table, log_system: Named = EMBEDDED) -> None:
    """Write the rows of the current version as one section, so that new readers start faster.

    It runs in this process, without Spark.
    """
    from airflow_samza.engine.tables.table_compaction import compact_here

    environment = place.environment
    files, folder = environment.files, TableFolder(log_system, f"{table}-push")
    version = versions.newest(files, log_system, folder.topic)
    if version is None:
        raise versions.missing(files, log_system, folder.topic, "version")
    if len(version.sections) == 1:
        say(f"Table {table}: version {version.number} is one section already.")
        return
    new_version, is_new = compact_here(files, environment.systems.get(log_system, UNDER_ROOT), folder, version)
    done = "is" if is_new else "was already"
    say(
        f"Table {table}: version {version.number} {done} compacted: {len(new_version.chain)} sections "
        f"to one of {new_version.rows:,} rows, {new_version.bytes:,} bytes."
    )


def versions_text(kept: list[TableVersion], expired: set[int], current: TableVersion) -> str:
    """Print versions for people."""
    rows: list[list[object]] = [
        [
            version.number,
            f"rollback to {version.reads}" if version.kind == ROLLBACK else version.kind,
            version.base_rows if version.kind == ROLLBACK else version.rows,
            version.deletes,
            version.bytes,
            _at(version.current_from),
            version.push_id,
            _said(version, expired, current),
        ]
        for version in kept
    ]
    return columns(["VERSION", "KIND", "ROWS", "DELETES", "BYTES", "CURRENT FROM (UTC)", "PUSH", ""], rows)


def _said(version: TableVersion, expired: set[int], current: TableVersion) -> str:
    place = (
        "current"
        if version == current
        else "expired"
        if version.number in expired
        else "late"
        if version.is_late
        else ""
    )
    return ", ".join(word for word in (place, "compacted" if version.compacted is not None else "") if word)


def _at(moment: str) -> str:
    return moment[:19].replace("T", " ")


def _columns(text: str | None) -> Any:
    if text is None:
        return None
    return (
        _parsed("--columns", text)
        if text.lstrip().startswith(("{", "["))
        else [name.strip() for name in text.split(",")]
    )


def _from_here(source: Any) -> Any:
    """Return the source with relative paths made absolute: the stage runner has another current folder."""
    if isinstance(source, dict):
        return {**source, "path": _from_here(source["path"])} if isinstance(source.get("path"), str) else source
    if not isinstance(source, str) or not source or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", source):
        return source
    return str(Path.cwd() / source)


def _parsed(what: str, text: str) -> Any:
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise ConfigError(
            f"{what} {text!r} is not JSON.", hint="Give a path, or a JSON object.", key=what, value=text
        ) from None
