"""Path templates over the data interval of a run: ``{data_interval_start:%Y/%m/%d/%H}``.

The templates are Python's own format fields over a fixed set of names; anything else in braces is rejected, so that a
misspelt name is not taken for a folder. Declarations check paths by it, and a run renders them for its data interval.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.application.times import is_time_zone, time_zone_hint

INTERVAL_START, INTERVAL_END, DATE, DATE_WITHOUT_DASHES = "data_interval_start", "data_interval_end", "ds", "ds_nodash"
RUN_ID, PARTITION_KEY = "run_id", "partition_key"

TIMES = (INTERVAL_START, INTERVAL_END, DATE, DATE_WITHOUT_DASHES)
"""The fields that are times: they follow UTC, or the zone that they name."""

_KNOWN = ", ".join("{" + name + "}" for name in (*TIMES, RUN_ID, PARTITION_KEY, "config[…]"))
_PLACEHOLDERS = f"The placeholders are {_KNOWN}."
_DIRECTIVES = "aAbBcCdDeFfGhHIjmMpRSTuUVwWxXyYzZ%"
"""Letters of ``strftime`` that all hosts know."""

_DIRECTIVE = re.compile(r"%(-?.|$)", re.DOTALL)
_OF_JAVA = {"yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "mm": "%m", "dd": "%d", "hh": "%H", "ss": "%S"}


@dataclass(frozen=True)
class PathField:
    """A field of a path template: ``{name:format|zone}``; ``before`` is the text in front of it.

    A template's last text stands before a field without a name.
    """

    before: str
    name: str | None = None
    format: str = ""
    zone: str | None = None
    conversion: str = ""

    @property
    def config_key(self) -> str | None:
        """Return the configuration key whose value it takes."""
        is_config = self.name is not None and self.name.startswith("config[") and self.name.endswith("]")
        return self.name[len("config[") : -1] if is_config and self.name is not None else None


def path_fields(template: str) -> Iterator[PathField]:
    """Yield the fields of a template; a ValueError where its braces do not match.

    >>> [(field.before, field.name, field.format, field.zone) for field in path_fields("in/{ds|Asia/Tokyo}/x")]
    [('in/', 'ds', '', 'Asia/Tokyo'), ('/x', None, '', None)]
    """
    for before, name, form, conversion in string.Formatter().parse(template):
        if name is None:
            yield PathField(before)
            continue
        # The zone stands last: behind the format, or behind the name where there is none.
        name, bar, zone = name.partition("|")
        form = form or ""
        if "|" in form:
            form, bar, zone = form.rpartition("|")
        yield PathField(before, name, form, zone if bar else None, conversion or "")


def wrong_in_path(template: str) -> tuple[str, str] | None:
    """Return what is wrong with a template, as the end of a sentence, and a hint; None where nothing is.

    >>> wrong_in_path("in/{data_interval_start:%Y-%m-%d|Europe/Amsterdam}") is None
    True
    >>> wrong_in_path("in/{day}")[0]
    'has the unknown placeholder {day}'
    """
    try:
        fields = list(path_fields(template))
    except ValueError as error:
        return f"cannot be read: {error}", _PLACEHOLDERS
    return next((wrong for field in fields if (wrong := _wrong_in(field)) is not None), None)


def unset_key(key: str, keys: Iterable[str]) -> tuple[str, str]:
    """Return what is wrong with a template that takes a configuration key which is not set, and a hint."""
    return f"names the configuration key {key!r}, which is not set", f"{did_you_mean(key, keys)}{_PLACEHOLDERS}"


def _wrong_in(field: PathField) -> tuple[str, str] | None:
    name = field.name
    if name is None:
        return None
    if field.conversion:
        return f"has the conversion !{field.conversion}", _PLACEHOLDERS
    if name not in (*TIMES, RUN_ID, PARTITION_KEY) and field.config_key is None:
        near = did_you_mean(name, (*TIMES, RUN_ID, PARTITION_KEY))
        return f"has the unknown placeholder {{{name}}}", f"{near}{_PLACEHOLDERS}"
    if field.zone is not None and name not in TIMES:
        return f"gives {{{name}}} the time zone {field.zone!r}", "Only times have a zone: leave it out."
    if field.zone is not None and not is_time_zone(field.zone):
        return f"names {field.zone!r}, which is not a time zone", time_zone_hint(field.zone)
    if not field.format:
        return None
    if name not in (INTERVAL_START, INTERVAL_END):
        example = f"{{{INTERVAL_START}:%Y/%m/%d}}"
        return f"gives {{{name}}} the format {field.format!r}", f"Leave it out, or write a time: {example}."
    return _wrong_format(field.format)


def _wrong_format(form: str) -> tuple[str, str] | None:
    hint = (
        "Write directives of strftime: %Y (year), %m (month), %d (day), %H (hour), %M (minute), %j (day of the year)."
    )
    directives = [match[1] for match in _DIRECTIVE.finditer(form)]
    for directive in directives:
        letter = directive.removeprefix("-")
        if not letter or letter not in _DIRECTIVES:
            other = letter.swapcase()
            near = f"Did you mean %{other}? " if other in _DIRECTIVES and letter else ""
            return f"has the format {form!r} with the unknown directive %{directive}", f"{near}{hint}"
    if not directives or "{" in form or "}" in form:
        meant = re.sub(r"[A-Za-z]+", lambda word: _of_java(word[0], form), form)
        near = f"Did you mean {meant}? " if meant != form else ""
        return f"has the format {form!r}, in which there is nothing of a time", f"{near}{hint}"
    return None


def _of_java(word: str, form: str) -> str:
    """Return the directive that a word of Java's patterns stands for, else the word."""
    return "%M" if word == "mm" and "MM" in form else _OF_JAVA.get(word.lower(), word)
