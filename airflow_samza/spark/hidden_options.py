"""Options of a source or a table that hold secrets, kept out of the plans that a Spark Connect server executes.

A server writes whole plans into its log when an execution is left behind, and shows them on its page. So a temporary
view, which only that session sees, is made of the source, and later plans hold no more than its name. The statement
that makes the view is a plan, too: a secret stands in it character by character, each as the name of a setting of the
session that SQL replaces by its value on the server. The names are drawn by lot, and there is one for every character
that there is: events, which tell the settings of a session, show an alphabet and no secret; the statement shows an
order and no letter. The settings are gone before anything is read. Readers of sources and upserts into databases make
their views by it.
"""

from __future__ import annotations

import re
import secrets as lots
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from airflow_samza.errors import ConfigError
from airflow_samza.secrecy import gives_away, secret_names, without
from airflow_samza.systems.system import option_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
    from pyspark.sql.connect.session import SparkSession as RemoteSession

_OPTIONS_REDACTED = "spark.sql.redaction.options.regex"
_TEXTS_REDACTED = "spark.sql.redaction.string.regex"
"""Spark's own patterns of options, and of parts of statements, that its pages and events do not show."""

_BOOK = "airflow_samza."
"""Settings of a session with this beginning spell secrets. It is none of Spark's own: those go along with every job."""

_NAMES_OF_A_LETTER = 4
"""Number of names per character, so that an order of names does not show where a character comes twice."""

_LOTS = 10**16

_FORMAT = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*")


def is_remote(spark: SparkSession) -> bool:
    """Return whether a session is a client of a Spark Connect server, which is sent plans."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def read_hidden(spark: SparkSession, format: str, options: Mapping[str, Any], hidden: Iterable[str] = ()) -> DataFrame:
    """Return what ``spark.read.format(format).options(**options).load()`` does, without a secret in a plan.

    For functions of users, too: they get the session that Connect or a local Spark gave us. A session of this process
    sends plans to nobody, and reads as usual. ``hidden`` names options that are secret whatever they are called.
    """
    texts = {str(name): option_text(value) for name, value in options.items()}
    secret = secret_names(texts) | set(hidden)
    if not is_remote(spark) or not secret & set(texts):
        return spark.read.format(format).options(**texts).load()
    return spark.table(hidden_view(spark, format, texts, secret))


def hidden_view(spark: SparkSession, format: str, options: Mapping[str, str], secret: Collection[str]) -> str:
    """Make a temporary view of a source in a session of a Spark Connect server, and return its name."""
    if not _FORMAT.fullmatch(format):
        raise ConfigError(
            f"{format!r} is not a format of Spark.", hint="Write one like jdbc, or a class.", key="format", value=format
        )
    view = f"airflow_samza_{uuid.uuid4().hex}"
    book: dict[str, str] = {}
    options_sql = ", ".join(
        f"{_literal(name)} {_spelled(value, book) if name in secret else _literal(value)}"
        for name, value in options.items()
    )
    with _without_secrets([options[name] for name in options if name in secret]), _settings(spark, options, book):
        spark.sql(f"CREATE TEMPORARY VIEW {view} USING {format} OPTIONS ({options_sql})")
    return view


def reject_secrets(spark: SparkSession, frame: DataFrame, what: str) -> None:
    """Reject a DataFrame of a Spark Connect server that a user's function has made with a secret in its plan."""
    if not is_remote(spark):
        return
    remote, client = cast("RemoteFrame", frame), cast("RemoteSession", spark).client
    name = next(_secret_options(remote._plan.to_proto(client)), None)
    if name is not None:
        raise ConfigError(
            f"{what} reads with the option {name!r}, which a Spark Connect server would write into its log with the "
            "whole plan.",
            hint="Read with airflow_samza.spark.hidden_options.read_hidden(spark, format, options), which keeps it "
            "out of plans, or from a catalog of the server that knows the password.",
            key=name,
        )


@contextmanager
def _settings(spark: Any, options: Mapping[str, str], book: Mapping[str, str]) -> Iterator[None]:
    """Set what the session needs to make the view; the book is in it for no longer than that takes."""
    from pyspark.sql.connect.proto import ConfigRequest

    patterns = {
        _OPTIONS_REDACTED: "|".join(f"^{re.escape(name)}$" for name in options),
        _TEXTS_REDACTED: rf"\$\{{{_BOOK}\d+\}}",
    }
    values = {"spark.sql.parser.escapedStringLiterals": "false", "spark.sql.variable.substitute": "true"}
    before = {key: spark.conf.get(key, None) for key in (*patterns, *values)}
    needed = {key: value for key, value in values.items() if before[key] not in (None, value)}
    needed |= {key: f"{before[key]}|{pattern}" if before[key] else pattern for key, pattern in patterns.items()}
    spark.conf._set_all({**needed, **book}, silent=False)
    del needed[_OPTIONS_REDACTED]  # this stays: whatever shows the view's plan later hides the options, too
    try:
        yield
    finally:
        unset = [*book, *(key for key in needed if before[key] is None)]
        spark.client.config(ConfigRequest.Operation(unset=ConfigRequest.Unset(keys=unset)))
        spark.conf._set_all({key: before[key] for key in needed if before[key] is not None}, silent=False)


def _spelled(text: str, book: dict[str, str]) -> str:
    """Return a text as a literal whose characters are names of settings.

    ``book`` gets the settings, of which every text has its own.
    """
    letters = [chr(number) for number in range(32, 127)]
    names: dict[str, list[str]] = {}
    for letter in dict.fromkeys([*letters, *text]):
        names[letter] = [f"{_BOOK}{lots.randbelow(_LOTS)}" for _ in range(_NAMES_OF_A_LETTER)]
        book.update(dict.fromkeys(names[letter], _escaped(letter)))
    return "'" + "".join(f"${{{lots.choice(names[letter])}}}" for letter in text) + "'"


@contextmanager
def _without_secrets(values: Collection[str]) -> Iterator[None]:
    """Take secrets out of errors of Spark."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        said = without(str(error), [form for value in values for form in (value, _literal(value)[1:-1])])
        if said != str(error):
            raise type(error)(said) from None
        raise


def _secret_options(message: Any) -> Iterator[str]:
    """Yield the names of options in a plan that hold secrets, wherever in it."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.name == "options":
                yield from (name for name, text in value.items() if gives_away(name, text))
        elif field.is_repeated:
            for item in value:
                yield from _secret_options(item)
        else:
            yield from _secret_options(value)


def _literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return f"'{''.join(map(_escaped, text))}'"


def _escaped(letter: str) -> str:
    """Return a character in a literal.

    ASCII letters and digits as they are, all others by number, so that none means anything.
    """
    if letter.isascii() and letter.isalnum():
        return letter
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place]:02x}{units[place + 1]:02x}" for place in range(0, len(units), 2))
