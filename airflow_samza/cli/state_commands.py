"""``airflow-samza state``: shows, gives up, rolls back and resets the state of applications."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Annotated, Any

import typer

from airflow_samza.cli.options import ROOT, SAY_YES, Json, Place, Yes, at_place, look_from_here
from airflow_samza.cli.terminal import columns, json_line, say, say_json
from airflow_samza.errors import StateError
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.lease import newest_lease
from airflow_samza.runs.state_history.state_upkeep import (
    StateReport,
    abandon as abandon_run,
    report_state,
    reset as reset_state,
)
from airflow_samza.runs.state_history.versions import Version, find_version, is_reset, newest_number, state_bytes
from airflow_samza.systems.filesystems.filesystem import Filesystem

state = typer.Typer(help="Show and reset the state that an application carries from run to run.", no_args_is_help=True)

Name = Annotated[
    str,
    typer.Argument(metavar="APP", help="The application: its name, or package.module:attribute.", show_default=False),
]
Copy = Annotated[
    str, typer.Option("--app-id", metavar="ID", help="The id of the application's copy, if APP is a name.")
]


@state.command(epilog="Example: airflow-samza state show page-views")
@at_place(ROOT)
def show(place: Place, application: Name, app_id: Copy = "1", as_json: Json = False) -> None:
    """Show the versions of an application's state, the run that left each, and the run that holds it now."""
    files, history = _history(application, place, app_id)
    report = report_state(files, history)
    typer.echo(json_line(report_facts(history, report)) if as_json else report_text(history, report))


@state.command(epilog="Example: airflow-samza state files page-views")
@at_place(ROOT)
def files(
    place: Place,
    application: Name,
    app_id: Copy = "1",
    version: Annotated[
        int, typer.Option("--version", metavar="VERSION", help="The version of the state; 0: the newest.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Show which files an application has read of inputs with slice="checkpoint"."""
    root, history = _history(application, place, app_id)
    state_version = find_version(root, history, version or newest_number(root, history))
    if as_json:
        say_json(files_facts(state_version))
        return
    say(files_text(history, state_version))


@state.command(epilog="Example: airflow-samza state abandon page-views RUN")
@at_place(ROOT)
def abandon(
    place: Place,
    application: Name,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run, as `state show` names it.", show_default=False)],
    app_id: Copy = "1",
    force: Annotated[bool, typer.Option("--force", help="Also give up a run that seems to be at work.")] = False,
    yes: Yes = False,
) -> None:
    """Give up a run that will not finish. Its output stays, and the next run reads its input range again."""
    files, history = _history(application, place, app_id)
    question = (
        f"Give up the run {run!r} of {history.application!r}? What it has written stays, and the next run "
        "writes it again."
    )
    if not yes and not typer.confirm(question, err=True):
        raise StateError("Nothing was given up.", hint=SAY_YES, run=run)
    left = abandon_run(files, history, run, force=force)
    if left is not None:
        say(f"The run {run!r} had finished: it left version {left.number}, and nothing was given up.")
    else:
        say(f"The run {run!r} is given up; the next run of {history.application!r} may start.")


@state.command(epilog="Example: airflow-samza state reset page-views --to 4")
@at_place(ROOT)
def reset(
    place: Place,
    application: Name,
    app_id: Copy = "1",
    to: Annotated[int, typer.Option("--to", metavar="VERSION", help="The version to go back to; 0: no state.")] = 0,
    yes: Yes = False,
) -> None:
    """Go back to an earlier version of the state, or to none.

    Outputs stay as they are. The versions in between stay for a while.
    """
    files, history = _history(application, place, app_id)
    if not newest_number(files, history) and newest_lease(files, history) is None:
        raise StateError(
            f"No run of {history.application!r} has left a state under {files.location('')}, so there is nothing to "
            "set back.",
            hint="Check the name of the application, its --app-id, and where its root is (--env, --root).",
            application=history.application,
        )
    what = f"version {to}" if to else "nothing: the next run reads its inputs from the oldest offset on"
    if not yes and not typer.confirm(f"Set the state of {history.application!r} back to {what}?", err=True):
        raise StateError("Nothing was changed.", hint=SAY_YES, application=history.application)
    new_version = reset_state(files, history, to)
    say(
        f"The state of {history.application!r} is that of {f'version {to}' if to else 'no run'} again (version "
        f"{new_version.number})."
    )


def report_facts(history: StateHistory, report: StateReport) -> dict[str, Any]:
    """Return a state as ``state show --json`` has it; ``offsets`` are the next ones to read, by input and partition."""
    holder = None
    if report.holder is not None and report.standing is not None:
        holder = {"run": report.holder.run, "fence": report.holder.fence, "standing": report.standing.why}
    return {
        "application": history.application,
        "app_id": history.app_id,
        "versions": [
            {
                "version": version.number,
                "parent": version.parent or None,
                "run": None if is_reset(version) else version.run,
                "reset_to": version.copy_of if is_reset(version) else None,
                "at": _moment(version.at),
                "interval": version.interval,
                "offsets": version.offsets,
                "files": {stream: int(arrived["files"]) for stream, arrived in version.arrived.items()},
                "bytes": state_bytes(version.stages),
            }
            for version in report.versions
        ],
        "holder": holder,
        "apart": report.apart,
    }


def report_text(history: StateHistory, report: StateReport) -> str:
    """Print a state for people."""
    lines = []
    if report.versions:
        rows: list[list[object]] = [
            [
                version.number,
                version.parent or "",
                f"reset to {version.copy_of or 'nothing'}" if is_reset(version) else version.run,
                _moment(version.at),
                ", ".join(_read(version)),
                state_bytes(version.stages),
            ]
            for version in report.versions
        ]
        lines.append(columns(["VERSION", "FROM", "LEFT BY", "AT (UTC)", "OFFSETS", "BYTES"], rows))
    else:
        lines.append(f"No run of {history.application!r} has left a state here.")
    if report.holder is not None and report.standing is not None:
        lines.append(f"The run {report.holder.run!r} holds it (fence {report.holder.fence}); it {report.standing.why}.")
    if report.apart:
        lines.append(f"Runs with a state of their own: {', '.join(report.apart)}.")
    return "\n".join(lines)


def files_facts(version: Version | None) -> Iterator[dict[str, Any]]:
    """Yield the files in a version's record as ``state files --json`` has them."""
    for stream, arrived in sorted((version.arrived if version is not None else {}).items()):
        for name, (bytes_, changed, _) in arrived["names"].items():
            at = None if changed is None else _moment(changed / 1e9)
            yield {"input": stream, "file": name, "bytes": int(bytes_), "changed": at}


def files_text(history: StateHistory, version: Version | None) -> str:
    """Print the records of files in a version for people."""
    if version is None or not version.arrived:
        return f"The state of {history.application!r} has no record of files."
    rows = [[one["input"], one["file"], f"{one['bytes']:,}", one["changed"] or ""] for one in files_facts(version)]
    sums = []
    for stream, arrived in sorted(version.arrived.items()):
        before = arrived["horizon"]
        text = f"{stream}: {int(arrived['files']):,} files ({int(arrived['bytes']):,} bytes) were read"
        if before is not None:
            text += f"; files up to {before[1]} in the order of {arrived['order']}s count as read"
        if arrived["late"]:
            text += f"; {int(arrived['late']):,} came too late, and are unread"
        sums.append(f"{text}.")
    table = [columns(["INPUT", "FILE", "BYTES", "CHANGED (UTC)"], rows)] if rows else []
    return "\n".join([*table, *sums])


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def _read(version: Version) -> list[str]:
    """Return how far a version has read its inputs: offsets, and numbers of files."""
    offsets = [(stream, f"{sum(offsets_of_stream):,}") for stream, offsets_of_stream in version.offsets.items()]
    files = [(stream, f"{int(arrived['files']):,} files") for stream, arrived in version.arrived.items()]
    return [f"{stream} {text}" for stream, text in sorted([*offsets, *files])]


def _history(application: str, place: Place, app_id: str) -> tuple[Filesystem, StateHistory]:
    environment = place.environment
    files = environment.files
    if ":" not in application:
        return files, StateHistory(application, app_id)
    from airflow_samza.application.loader import load_application

    look_from_here()
    spec = load_application(application).spec(environment.config)
    return files, StateHistory(spec.name, spec.app_id)
