"""The data interval of a run, and paths over it (decision 105)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from airflow_samza.application.declarations.path_templates import (
    DATE,
    DATE_WITHOUT_DASHES,
    INTERVAL_END,
    RUN_ID,
    TIMES,
    PathField,
    path_fields,
    unset_key,
    wrong_in_path,
)
from airflow_samza.errors import ConfigError

EMPTY_INTERVAL_HINT = (
    'Schedule the Dag with CronDataIntervalTimetable("@hourly", timezone="UTC"): '
    "a plain cron string gives an interval of no length. "
    'Or read what is new since the last run with slice="checkpoint".'
)


@dataclass(frozen=True)
class DataInterval:
    """From ``start`` up to and without ``end``: two instants, which are kept in UTC, whatever zone they came in."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        """Take both to UTC; reject moments without a time zone and an end before the start."""
        for name in ("start", "end"):
            object.__setattr__(self, name, _in_utc(getattr(self, name), name))
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
        return self.start.isoformat(), self.end.isoformat()

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


def last_intervals(interval: DataInterval, count: int, template: str) -> list[DataInterval]:
    """Return so many intervals as long as one, which is the last of them, oldest first.

    Whole days and months are those of the calendar in the zone of the path ``template``, whatever clocks did; any other
    length is one of time.

    >>> march = DataInterval.from_iso("2026-03-01", "2026-04-01")
    >>> [each.start.month for each in last_intervals(march, 3, "in/{data_interval_start:%Y-%m}")]
    [1, 2, 3]
    >>> day = DataInterval.from_iso("2026-03-29T22:00", "2026-03-30T22:00")
    >>> str(last_intervals(day, 2, "{ds|Europe/Amsterdam}")[0])
    '[2026-03-28T23:00:00+00:00, 2026-03-29T22:00:00+00:00)'
    """
    zone = next((ZoneInfo(field.zone) for field in path_fields(template) if field.zone is not None), timezone.utc)
    start, end = (moment.astimezone(zone).replace(tzinfo=None) for moment in (interval.start, interval.end))
    months = (end.year - start.year) * 12 + end.month - start.month
    of_months = months > 0 and start.replace(year=end.year, month=end.month, day=1) == end.replace(day=1)
    if of_months and start.day == end.day <= 28:
        moments = [_months_before(end, months * back) for back in range(count, -1, -1)]
    elif (end - start) % timedelta(days=1) == timedelta(0):
        moments = [end - (end - start) * back for back in range(count, -1, -1)]
    else:
        length = interval.end - interval.start
        starts = [interval.start - length * back for back in reversed(range(count))]
        return [DataInterval(start, start + length) for start in starts]
    borders = [moment.replace(tzinfo=zone) for moment in moments]
    return [*itertools.starmap(DataInterval, itertools.pairwise(borders[:-1])), interval]


def _months_before(moment: datetime, months: int) -> datetime:
    count = moment.year * 12 + moment.month - 1 - months
    return moment.replace(year=count // 12, month=count % 12 + 1)


def render_path(
    template: str, *, stream: str, interval: DataInterval | None, run_id: str, config: Mapping[str, str]
) -> str:
    """A path with its ``{…}`` fields filled in.

    Fields: ``data_interval_start`` and ``data_interval_end`` (with a strftime format after a colon), ``ds`` and
    ``ds_nodash`` (the start's date), ``run_id``, and ``config[key]``. ``{{`` and ``}}`` stand for braces. Times follow
    UTC, or the zone that is named behind a ``|``. What comes with a run (its id, configuration) is one name of a file
    or folder: values with ``/``, ``..`` or ``*`` in them would lead anywhere, and are rejected.

    >>> hour = DataInterval.from_iso("2026-01-01T23:00", "2026-01-02T00:00")
    >>> render_path("in/{data_interval_start:%Y/%m/%d/%H}", stream="views", interval=hour, run_id="r", config={})
    'in/2026/01/01/23'
    >>> render_path("in/{ds|Europe/Amsterdam}", stream="views", interval=hour, run_id="r", config={})
    'in/2026-01-02'
    """
    wrong = wrong_in_path(template)
    if wrong is not None:
        raise _bad_template(template, stream, *wrong)
    parts: list[str] = []
    for field in path_fields(template):
        parts.append(field.before)
        if field.name in TIMES:
            needed = needed_interval(interval, stream=stream, what=f"path {template!r}")
            parts.append(_time_text(field, needed))
        elif field.name == RUN_ID:
            parts.append(_plain(template, RUN_ID, run_id, stream))
        elif (key := field.config_key) is not None:
            if key not in config:
                raise _bad_template(template, stream, *unset_key(key, config))
            parts.append(_plain(template, f"config[{key}]", config[key], stream))
    return "".join(parts)


def _time_text(field: PathField, interval: DataInterval) -> str:
    moment = interval.end if field.name == INTERVAL_END else interval.start
    if field.zone is not None:
        moment = moment.astimezone(ZoneInfo(field.zone))
    form = {DATE: "%Y-%m-%d", DATE_WITHOUT_DASHES: "%Y%m%d"}.get(field.name or "", field.format)
    return moment.strftime(form) if form else moment.isoformat()


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
    fields = list(path_fields(template))
    if not any(field.name == RUN_ID or field.config_key is not None for field in fields):
        return None
    before = fields[0].before
    folder = before.rpartition("/")[0]
    return folder or ("/" if before.startswith("/") else "")


def fixed_folder(template: str, config: Mapping[str, str]) -> str:
    """The folder, or the file, that a path template names in every run: all before its first field or pattern.

    Configuration is the same in every run of an application, until somebody changes it.

    >>> fixed_folder("in/{config[of]}/{ds}/*.json", {"of": "views"}), fixed_folder("in/day-*.csv", {})
    ('in/views', 'in')
    """
    folder, whole = "", True
    for field in path_fields(template):
        folder += field.before
        if field.config_key is not None and field.config_key in config:
            folder += config[field.config_key]
        elif field.name is not None:
            whole = False
            break
    pattern = _PATTERN.search(folder)
    if pattern is not None:
        folder, whole = folder[: pattern.start()], False
    return (folder if whole else folder.rpartition("/")[0]).rstrip("/")


_PATTERN = re.compile(r"[*?\[]")


def _bad_template(template: str, stream: str, what: str, hint: str) -> ConfigError:
    return ConfigError(
        f"The path {template!r} of the stream {stream!r} {what}.", hint=hint, key="path", value=template, stream=stream
    )


def _in_utc(moment: datetime, name: str) -> datetime:
    """Return the same instant in UTC, as a plain datetime: Airflow's are pendulum's, whose arithmetic is its own."""
    if moment.utcoffset() is None:
        raise ConfigError(
            f"The data interval's {name} {moment.isoformat()} has no time zone.",
            hint="Pass moments with a time zone, such as pendulum.datetime(2026, 1, 1, tz='UTC').",
            key=f"data_interval_{name}",
            value=moment.isoformat(),
        )
    # The fold tells the hours apart that a clock shows twice; timetz() of pendulum drops it.
    parts = (moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second, moment.microsecond)
    try:
        return datetime(*parts, tzinfo=moment.tzinfo, fold=moment.fold).astimezone(timezone.utc)
    except OverflowError:
        raise ConfigError(
            f"The data interval's {name} {moment.isoformat()} is not in the years 1 to 9999 in UTC.",
            hint="Write a later start, or an earlier end.",
            key=f"data_interval_{name}",
            value=moment.isoformat(),
        ) from None


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is not a moment.", hint="Write it as 2026-01-01T05:00:00+00:00.", key="data_interval", value=text
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
