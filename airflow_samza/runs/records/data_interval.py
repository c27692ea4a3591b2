"""The data interval of a run, and path templates over it: ``{data_interval_start:%Y/%m/%d/%H}``.

The templates are Python's own format fields over a fixed set of names; anything else in braces is rejected, so that a
misspelt name is not taken for a folder.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from airflow_samza.errors import ConfigError

EMPTY_INTERVAL_HINT = (
    'Schedule the Dag with CronDataIntervalTimetable("@hourly", timezone="UTC"): a plain cron string gives an '
    "interval of no length. "
    'Or read what is new since the last run with slice="checkpoint".'
)


@dataclass(frozen=True)
class DataInterval:
    """From ``start`` up to and without ``end``; both know their time zone."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        """Reject moments without a time zone and an end before the start."""
        for name, moment in (("start", self.start), ("end", self.end)):
            if moment.tzinfo is None:
                raise ConfigError(
                    f"The data interval's {name} {moment.isoformat()} has no time zone.",
                    hint="Pass moments with a time zone, such as pendulum.datetime(2026, 1, 1, tz='UTC').",
                    key=f"data_interval_{name}",
                    value=moment.isoformat(),
                )
        if self.end < self.start:
            raise ConfigError(
                f"The data interval ends at {self.end.isoformat()}, before it starts at {self.start.isoformat()}.",
                hint="Swap start and end.",
                key="data_interval",
                value=str(self),
            )

    def __str__(self) -> str:
        return f"[{self.start.isoformat()}, {self.end.isoformat()})"

    @property
    def is_empty(self) -> bool:
        """Return whether it has no length."""
        return self.start == self.end

    def micros(self) -> tuple[int, int]:
        """Start and end in microseconds since the epoch, UTC."""
        return _micros(self.start), _micros(self.end)

    def iso(self) -> tuple[str, str]:
        """Start and end as ISO texts in UTC."""
        return self.start.astimezone(timezone.utc).isoformat(), self.end.astimezone(timezone.utc).isoformat()

    @classmethod
    def from_iso(cls, start: str, end: str) -> DataInterval:
        """The interval between two ISO texts; without a zone they are UTC."""
        return cls(_moment(start), _moment(end))


def needed_interval(interval: DataInterval | None, *, stream: str, what: str) -> DataInterval:
    """The data interval that a stream's slice needs; none, or an empty one, is rejected."""
    if interval is None:
        raise ConfigError(
            f"The input {stream!r} needs the data interval for its {what}, and this run has none.",
            hint="Schedule the Dag with CronDataIntervalTimetable, trigger it with a logical date, or give --interval "
            "on the command line.",
            key="data_interval",
            stream=stream,
        )
    if interval.is_empty:
        raise ConfigError(
            f"The data interval {interval} is empty, so the {what} of the input {stream!r} would select nothing.",
            hint=EMPTY_INTERVAL_HINT,
            key="data_interval",
            value=str(interval),
            stream=stream,
        )
    return interval


def render_path(
    template: str, *, stream: str, interval: DataInterval | None, run_id: str, config: Mapping[str, str]
) -> str:
    """A path with its ``{…}`` fields filled in.

    Fields: ``data_interval_start`` and ``data_interval_end`` (with a strftime format after a colon), ``ds`` and
    ``ds_nodash`` (the start's date), ``run_id``, and ``config[key]``. ``{{`` and ``}}`` stand for braces. What comes
    with a run (its id, configuration) is one
    name of a file or folder: values with ``/``, ``..`` or ``*`` in them would lead anywhere, and are rejected.

    >>> hour = DataInterval.from_iso("2026-01-01T05:00", "2026-01-01T06:00")
    >>> render_path("in/{data_interval_start:%Y/%m/%d/%H}", stream="views", interval=hour, run_id="r", config={})
    'in/2026/01/01/05'
    """
    known = ("data_interval_start", "data_interval_end", "ds", "ds_nodash", "run_id", "config[…]")
    parts: list[str] = []
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError as error:
        raise _bad_template(template, stream, f"cannot be read: {error}", known) from error
    for text, name, form, conversion in fields:
        parts.append(text)
        if name is None:
            continue
        if conversion:
            raise _bad_template(template, stream, f"has the conversion !{conversion}", known)
        parts.append(_value(template, name, form or "", stream, interval, run_id, config, known))
    return "".join(parts)


def _value(
    template: str,
    name: str,
    form: str,
    stream: str,
    interval: DataInterval | None,
    run_id: str,
    config: Mapping[str, str],
    known: tuple[str, ...],
) -> str:
    if name in ("data_interval_start", "data_interval_end", "ds", "ds_nodash"):
        slice_ = needed_interval(interval, stream=stream, what=f"path {template!r}")
        moment = slice_.end if name == "data_interval_end" else slice_.start
        if name == "ds":
            return moment.strftime("%Y-%m-%d")
        if name == "ds_nodash":
            return moment.strftime("%Y%m%d")
        return moment.strftime(form) if form else moment.isoformat()
    if name == "run_id":
        return _plain(template, name, run_id, stream)
    if name.startswith("config[") and name.endswith("]"):
        key = name[len("config[") : -1]
        if key not in config:
            raise _bad_template(template, stream, f"names the configuration key {key!r}, which is not set", known)
        return _plain(template, name, config[key], stream)
    raise _bad_template(template, stream, f"has the unknown placeholder {{{name}}}", known)


_WRONG_IN_VALUES = (
    ("://", "'://'"),
    ("/", "'/'"),
    ("\\", "a backslash"),
    ("..", "'..'"),
    ("*", "'*'"),
    ("?", "'?'"),
    ("[", "'['"),
)


def _plain(template: str, name: str, value: str, stream: str) -> str:
    """A value that comes with the run, if it is one name of a file or folder."""
    wrong = next((f"holds {shown}" for sign, shown in _WRONG_IN_VALUES if sign in value), None)
    if not value or value == ".":
        wrong = "names no file or folder"
    elif any(ord(sign) < 32 or ord(sign) == 127 for sign in value):
        wrong = "holds a control character"
    if wrong is None:
        return value
    shown = value if len(value) <= 60 else value[:60] + "…"
    raise ConfigError(
        f"The path {template!r} of the stream {stream!r} takes {shown!r} from {name}, which {wrong}.",
        hint="Such a value must be one plain name of a file or folder; write slashes and * into path= itself.",
        key=name,
        value=shown,
        stream=stream,
    )


def folder_of_values(template: str) -> str | None:
    """The folder that a path template names before its first field, where it takes values that come with a run.

    None where it takes none.

    >>> folder_of_values("in/of-{config[day]}/*.csv"), folder_of_values("/{ds}/{run_id}"), folder_of_values("in/{ds}")
    ('in', '/', None)
    """
    fields = list(string.Formatter().parse(template))
    if not any(name is not None and (name == "run_id" or name.startswith("config[")) for _, name, _, _ in fields):
        return None
    before = fields[0][0]
    folder = before.rpartition("/")[0]
    return folder or ("/" if before.startswith("/") else "")


def fixed_folder(template: str, config: Mapping[str, str]) -> str:
    """The folder, or the file, that a path template names in every run: all before its first field or pattern.

    Configuration is the same in every run of an application, until somebody changes it.

    >>> fixed_folder("in/{config[of]}/{ds}/*.json", {"of": "views"}), fixed_folder("in/day-*.csv", {})
    ('in/views', 'in')
    """
    found, whole = "", True
    for text, name, _, _ in string.Formatter().parse(template):
        found += text
        key = (name or "").removeprefix("config[").removesuffix("]")
        if name is not None and f"config[{key}]" == name and key in config:
            found += config[key]
        elif name is not None:
            whole = False
            break
    pattern = _PATTERN.search(found)
    if pattern is not None:
        found, whole = found[: pattern.start()], False
    return (found if whole else found.rpartition("/")[0]).rstrip("/")


_PATTERN = re.compile(r"[*?\[]")


def _bad_template(template: str, stream: str, what: str, known: tuple[str, ...]) -> ConfigError:
    return ConfigError(
        f"The path {template!r} of the stream {stream!r} {what}.",
        hint=f"The placeholders are {', '.join('{' + name + '}' for name in known)}; write {{{{ and }}}} for braces.",
        key="path",
        value=template,
        stream=stream,
    )


def _micros(moment: datetime) -> int:
    # Airflow's moments are pendulum's, whose differences cannot be divided by a timedelta.
    plain = datetime.combine(moment.date(), moment.timetz())
    return (plain - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is not a moment.", hint="Write it as 2026-01-01T05:00:00+00:00.", key="data_interval", value=text
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
