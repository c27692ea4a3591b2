"""Options of streams that are tables, as far as all kinds of tables have them alike.

The plan step reads them, and both lake formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.topic_rejections import unknown_value

REJECT, SKIP = "reject", "skip"
"""The rules for versions that have taken rows away from an input that is read by what is appended."""

WAITING = "waiting"
"""The option of an input that names a run, of which the rows are read that wait for their publication."""


def check_options(stream: StreamSpec, names: Sequence[str], *, what: str) -> dict[str, str]:
    """Return the options of a stream; an unknown one, and what tables do not have, are rejected.

    ``what`` is the kind of table, with its article.
    """
    options = dict(stream.options)
    unknown = next((name for name in options if name not in names and not (stream.written and "." in name)), None)
    if unknown is not None:
        raise ConfigError(
            f"Stream {stream.name!r} is a table, and {'tables that are written' if stream.written else 'tables'} have "
            f"no option {unknown!r}.",
            hint=did_you_mean(unknown, names).rstrip() or f"Options of tables are {', '.join(names)}.",
            key=unknown,
            value=options[unknown],
        )
    for name in ("path", "format"):
        if getattr(stream, name) is not None:
            raise ConfigError(
                f"Stream {stream.name!r} has {name}=, and {what} has a name.",
                hint='Write table="namespace.name" in its place.',
                key=name,
                value=getattr(stream, name),
            )
    return options


def check_one_version(stream: StreamSpec, options: Mapping[str, str], names: Sequence[str], *, reads: str) -> None:
    """Reject two options of which each says which version is read; ``reads`` is what a run reads."""
    said = [name for name in names if options.get(name)]
    if len(said) > 1:
        raise ConfigError(
            f"Stream {stream.name!r} has the options {' and '.join(said)}, and a run reads {reads}.",
            hint="Leave one of them out.",
            key=said[1],
            value=options[said[1]],
        )


def version_number(stream: StreamSpec, text: str, key: str, digits: int, write: str) -> int:
    """Return the id of a snapshot, or the number of a version, that a text names; ``write`` is the hint."""
    if not text.isdecimal() or len(text) > digits:
        raise ConfigError(
            f"Stream {stream.name!r} has the {key} {text!r}, which is no {'id' if key == 'snapshot' else 'number'}.",
            hint=write,
            key=key,
            value=text,
        )
    return int(text)


def bad_name(stream: StreamSpec, table: str, hint: str) -> ConfigError:
    """Return the error for a name that no table can have."""
    return ConfigError(f"Stream {stream.name!r} has the table name {table!r}.", hint=hint, key="table", value=table)


def point_in_time(stream: StreamSpec, text: str | None) -> datetime | None:
    """Return the time that the option ``as_of`` names, if it does."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ConfigError(
            f"Stream {stream.name!r} has as_of={text!r}, which is no point in time.",
            hint='Write it in ISO form (default: UTC): "2026-11-01T00:00Z", or "{data_interval_end}".',
            key="as_of",
            value=text,
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)


def checked_overwrites(stream: StreamSpec, options: Mapping[str, str]) -> str:
    """Return the rule for versions that have taken rows away."""
    overwrites = options.get("overwrites") or REJECT
    if overwrites not in (REJECT, SKIP):
        raise unknown_value(stream.name, "overwrites", overwrites, f"Choose {REJECT} or {SKIP}.")
    return overwrites
