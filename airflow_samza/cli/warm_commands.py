"""``airflow-samza warm``: the warm runners of this user on this host, and the end of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.cli.options import Json
from airflow_samza.cli.terminal import columns, say, say_json
from airflow_samza.errors import UnknownName
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.stages.stage_runners import all_runners

if TYPE_CHECKING:
    from airflow_samza.launch.warm.places import WarmPlace
    from airflow_samza.runs.records.run_plan import RunPlan
    from airflow_samza.systems.filesystems.filesystem import Filesystem

warm = typer.Typer(
    help="List and end warm runners: processes on this host that keep a Spark for the next run.", no_args_is_help=True
)


@warm.command("list", epilog="Example: airflow-samza warm list")
def list_runners(as_json: Json = False) -> None:
    """List the warm runners of this user on this host, and delete what dead ones have left."""
    from airflow_samza.launch.warm.places import sweep_orphans, warm_places

    for place in sweep_orphans():
        say(f"Deleted the folder of {place.name}, whose process was gone.", err=as_json)
    places = warm_places()
    if as_json:
        say_json(map(_facts, places))
        return
    if not places:
        say("There are no warm runners of this user on this host.")
    for line in _reasons():
        say(line)
    if not places:
        return
    heading = ("runner", "state", "runs", "age", "memory", "process", "master", "root", "tenant", "serves")
    say(columns(heading, [_row(place) for place in places]))


@warm.command("end", epilog="Example: airflow-samza warm end --now")
def end_runners(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RUNNER]…", help="The runners, as listed. Default: all.")
    ] = None,
    now: Annotated[
        bool, typer.Option("--now", help="Also end runners that serve a run; the run fails and can be retried.")
    ] = False,
) -> None:
    """End warm runners. A runner that serves a run stays, unless --now is given."""
    from airflow_samza.launch.warm.places import warm_places
    from airflow_samza.launch.warm.taking import end_warm

    places = {place.name: place for place in warm_places()}
    for name in names or ():
        if name not in places:
            raise UnknownName(
                f"There is no warm runner {name!r} of this user on this host.",
                hint=f"{did_you_mean(name, places)}The warm runners are {', '.join(places)}."
                if places
                else "There are no warm runners.",
                name=name,
            )
    for name in names or places:
        ended = end_warm(places[name], now=now)
        say(f"{name} ends." if ended else f"{name} stays: it serves a run, or does not answer (--now ends it).")
    if not places:
        say("There are no warm runners of this user on this host.")


def _reasons() -> list[str]:
    """Return why there may be fewer than one expects: the setting of this shell, and the last that has ended."""
    from airflow_samza.launch.warm.places import last_end
    from airflow_samza.launch.warm.settings import VARIABLE, configured_warm_runners

    off = [] if configured_warm_runners() else [f"{VARIABLE} switches them off in this shell."]
    end = last_end()
    return [*off, *([f"The last that has ended, or was not started (UTC): {end}"] if end else [])]


def _facts(place: WarmPlace) -> dict[str, Any]:
    """Return a runner as ``warm list --json`` has it; what one that does not answer would say is None."""
    from airflow_samza.launch.warm.messages import STATE
    from airflow_samza.launch.warm.taking import ask

    about, now = place.about(), ask(place, STATE) or {}
    row = {name: now.get(name) for name in ("state", "runs", "age", "megabytes", "run")}
    return {"runner": place.name, **row, **{name: about.get(name) for name in ("pid", "master", "root", "tenant")}}


def _row(place: WarmPlace) -> tuple[str, ...]:
    facts = _facts(place)
    age, megabytes = facts["age"], facts["megabytes"]
    shown = {
        **facts,
        "state": facts["state"] or "does not answer",
        "age": None if age is None else f"{age:.0f} s",
        "megabytes": None if megabytes is None else f"{megabytes:,} MiB",
    }
    order = ("runner", "state", "runs", "age", "megabytes", "pid", "master", "root", "tenant", "run")
    return tuple("" if shown[name] is None else str(shown[name]) for name in order)


def lenders(files: Filesystem, run: RunPlan) -> list[str]:
    """Return the warm runners that have lent a Java to a run: as its records name them, and what became of them."""
    claims = [runner.who(files) or {} for runner in all_runners(files, RunFolder(run.application, run.run_id))]
    served = [str(claim["warm"]) for claim in claims if claim.get("warm")]
    if not served:
        return []
    from airflow_samza.launch.warm.places import last_end, warm_places

    sentences = []
    for lender in served:
        name, _, number = lender.partition(", ")
        came = "the run started it" if number.startswith("run 1,") else "it was there already"
        _, _, why = last_end(name).partition(f"{name}: ")
        is_there = any(place.name == name for place in warm_places())
        went = ", and it is there for the next run" if is_there else f", and it has ended: {why}" if why else ""
        sentences.append(f"{lender} ({came}{went})")
    return sentences
