"""``airflow-samza topics``: the options of each command; ``topic_reports`` makes what they print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.cli import topic_reports
from airflow_samza.cli.options import SAY_YES, SYSTEMS, Json, Place, Yes, at_place
from airflow_samza.cli.terminal import json_line, say, say_json
from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.bindings import bind_log, is_log, log_under

if TYPE_CHECKING:
    from airflow_samza.systems.log.system import LogSystem

topics = typer.Typer(help="List, read, check and expire topics.", no_args_is_help=True)

OF = "--of"
Of = Annotated[
    str | None,
    typer.Option(
        OF, metavar="SYSTEM", help="The system of the topics, a log or Kafka. Default: the log under the root."
    ),
]
Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic's name, as `topics list` shows it.", show_default=False)
]


@topics.command("list", epilog="Example: airflow-samza topics list page-views")
@at_place(SYSTEMS)
def list_topics(
    place: Place,
    matching: Annotated[str, typer.Argument(metavar="[PART]", help="Only topics whose name contains this text.")] = "",
    of: Of = None,
    as_json: Json = False,
) -> None:
    """List topics: partitions, messages, bytes, last commit, expiry."""
    log = _log(place, of)
    if as_json:
        from airflow_samza.systems.log.topic_facts import list_facts

        say_json(list_facts(log, matching))
        return
    say(topic_reports.list_text(log, matching))


@topics.command(epilog="Example: airflow-samza topics show TOPIC")
@at_place(SYSTEMS)
def show(place: Place, topic: Topic, of: Of = None, as_json: Json = False) -> None:
    """Show a topic: schema, offsets of each partition, writers."""
    log = _log(place, of)
    if as_json:
        from airflow_samza.systems.log.topic_facts import show_facts

        typer.echo(json_line(show_facts(log, topic)))
        return
    say(topic_reports.show_text(log, topic))


@topics.command(epilog="Example: airflow-samza topics tail TOPIC -n 5 --follow")
@at_place(SYSTEMS)
def tail(
    place: Place,
    topic: Topic,
    of: Of = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="K", help="Only this partition.")
    ] = None,
    count: Annotated[int, typer.Option("-n", metavar="N", help="The number of messages of each partition.")] = 10,
    control: Annotated[
        bool, typer.Option("--control", help="Also print control messages (end-of-stream, watermarks).")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for new messages and print them, until Ctrl-C.")
    ] = False,
) -> None:
    """Print the last messages of a topic as JSON lines."""
    log = _log(place, of)
    topic_reports.tail(log, topic, partition=partition, count=count, control=control, follow=follow, tell=typer.echo)


@topics.command(epilog="Example: airflow-samza topics fsck TOPIC")
@at_place(SYSTEMS)
def fsck(
    place: Place,
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The topic. Default: all.")] = None,
    of: Of = None,
    as_json: Json = False,
) -> None:
    """Read every byte of a topic and report what is damaged, missing or left behind.

    Changes nothing; exit code 1 when rows are lost.
    """
    from airflow_samza.cli.fsck_command import Look, look_facts, look_lines, published, run_folders, topic_findings

    log = _log(place, of)
    names = [topic] if topic is not None else log.topics()
    files = place.environment().files
    publications = published(files, log, run_folders(files))
    sound = True
    for name in names:
        look = Look("topic", name, tuple(topic_findings(log, name, publications.get(name, ()))))
        typer.echo(json_line(look_facts(look)) if as_json else "\n".join(look_lines(look)))
        sound = sound and look.sound
    if not names and not as_json:
        say(topic_reports.none_under(log))
    if not sound:
        raise typer.Exit(1)


@topics.command(epilog="Example: airflow-samza topics expire TOPIC --older-than '7 days'")
@at_place(SYSTEMS)
def expire(
    place: Place,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC]", help="The topic to expire. Default: none, only delete what has expired."),
    ] = None,
    of: Of = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="Expire only messages of TOPIC that are older, for example '7 days'."
        ),
    ] = None,
    yes: Yes = False,
) -> None:
    """Delete expired topics. With TOPIC, expire that topic first, or its older messages."""
    log = _log(place, of)
    if older_than is not None and topic is None:
        raise ConfigError(
            "--older-than needs a topic.",
            hint="Write: topics expire TOPIC --older-than '7 days'.",
            key="--older-than",
            value=older_than,
        )
    if topic is not None:
        from airflow_samza.systems.log.segment_store import store_of

        log_topic = log.topic(topic)
        store_of(log_topic)  # a topic whose messages lie elsewhere is deleted there
        _reject_push_stream(log, topic, place)
        _reject_topic_of_open_run(topic, place)
        what = (
            f"the messages of {topic!r} that are older than {older_than}"
            if older_than
            else f"the whole topic {topic!r}"
        )
        before = topic_reports.moment_before(older_than)
        if not yes and not typer.confirm(f"Expire {what}? This cannot be undone.", err=True):
            raise TopicError("Nothing was expired.", hint=SAY_YES, stream=topic)
        say(topic_reports.expire(log_topic, before))
    say(topic_reports.sweep(log, place.environment().files))


def _reject_push_stream(log: LogSystem, topic: str, place: Place) -> None:
    """Reject expiring rows of a pushed table: its versions name rows by offset, and would lose them silently."""
    from airflow_samza.runs.tables.versions import newest

    current = newest(place.environment().files, log.name, topic)
    if current is not None:
        raise TopicError(
            f"The topic {topic!r} holds the versions of table {current.table!r}, of which {current.number} is current.",
            hint="keep_versions of its pushes says how many stay; 'topics expire' without a topic deletes the rows of "
            "the others.",
            stream=topic,
        )


def _reject_topic_of_open_run(topic: str, place: Place) -> None:
    """Reject expiring messages that another stage of an open run has still to read, or reads again in a retry."""
    from airflow_samza.runs.upkeep.retention import OpenTopics

    run = OpenTopics(place.environment().files).open_run(topic)
    if run is not None:
        raise TopicError(
            f"The topic {topic!r} lies between stages of the run {run.run_id!r} of {run.application!r}, which is open.",
            hint=f"End that run first: mark its tasks as failed in Airflow, or airflow-samza cancel {run.application} "
            f"{run.run_id}. A run whose command was killed ends when it is resumed (airflow-samza run … --run-id "
            f"{run.run_id}) and interrupted with Ctrl-C.",
            stream=topic,
            run=run.run_id,
        )


def _log(place: Place, of: str | None) -> LogSystem:
    environment = place.environment()
    if of is None:
        return log_under(environment.root)
    binding = environment.systems.get(of)
    if binding is None or not is_log(binding):
        logs = sorted(name for name, bound in environment.systems.items() if is_log(bound))
        raise ConfigError(
            f"There is no log {of!r} in {environment.origin}.",
            hint=f"{did_you_mean(of, logs)}Its systems of kind log or kafka are: {listed(logs)}.",
            key=OF,
            value=of,
        )
    return bind_log(of, binding, environment.root)
