"""The data interval of a run, and paths over it (decision 105).

Every face makes it, and the plan step renders paths by it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from airflow_samza.application.declarations.path_templates import (
    DATE,
    DATE_WITHOUT_DASHES,
    INTERVAL_END,
    PARTITION_KEY,
    RUN_ID,
    TIMES,
    PathField,
    path_fields,
    unset_key,
    wrong_in_path,
)
from airflow_samza.application.partition_keys import FORMS, beginning, is_moment, key_interval, months_later
from airflow_samza.errors import ConfigError


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
        return micros_of(self.start), micros_of(self.end)

    def iso(self) -> tuple[str, str]:
        """Start and end as ISO texts in UTC."""
        return self.start.isoformat(), self.end.isoformat()

    @classmethod
    def from_iso(cls, start: str, end: str) -> DataInterval:
        """The interval between two ISO texts; without a zone they are UTC.

        The end may be a length, such as ``P1D`` or ``PT6H``, which the clock of the start's offset counts.

        >>> str(DataInterval.from_iso("2026-01-31T00:00+01:00", "P1M"))
        '[2026-01-30T23:00:00+00:00, 2026-02-27T23:00:00+00:00)'
        >>> str(DataInterval.from_iso("2026-01-01", "PT6H"))
        '[2026-01-01T00:00:00+00:00, 2026-01-01T06:00:00+00:00)'
        """
        begin = _moment(start)
        return cls(begin, _after(begin, end) if end.startswith("P") else _moment(end))

    @classmethod
    def of_key(cls, key: str | None, zone: tzinfo = timezone.utc, at: datetime | None = None) -> DataInterval | None:
        """The interval that a partition key names in a time zone; None of a key that is no date.

        ``at`` is a moment of the partition where it is known: of an hour that a clock shows twice it tells which.

        >>> str(DataInterval.of_key("2026-03-29", ZoneInfo("Europe/Amsterdam")))
        '[2026-03-28T23:00:00+00:00, 2026-03-29T22:00:00+00:00)'
        """
        named = key_interval(key)
        if named is None:
            return None
        if named.unit != "hour":
            return cls(named.start.replace(tzinfo=zone), named.end.replace(tzinfo=zone))
        local = None if at is None else beginning(named.unit, at.astimezone(zone))
        is_same = local is not None and local.replace(tzinfo=None, fold=0) == named.start
        start = (local if local is not None and is_same else named.start.replace(tzinfo=zone)).astimezone(timezone.utc)
        return cls(start, start + timedelta(hours=1))


def needed_interval(
    interval: DataInterval | None, *, stream: str, what: str, partition_key: str | None = None
) -> DataInterval:
    """The data interval that a stream's slice needs; none, or an empty one, is rejected.

    ``partition_key`` is the one of the run, which names none where there is no interval.
    """
    if interval is None:
        if partition_key is not None:
            raise key_without_interval(
                f"The input {stream!r} needs the data interval for its {what}", partition_key, stream=stream
            )
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
            hint='Schedule the Dag with CronDataIntervalTimetable("@hourly", timezone="UTC"): '
            "a plain cron string gives an interval of no length. "
            'Or read what is new since the last run with slice="checkpoint".',
            key="data_interval",
            value=str(interval),
            stream=stream,
        )
    return interval


def key_without_interval(who: str, partition_key: str, **facts: object) -> ConfigError:
    """Return the error of a run whose partition key names no interval; ``who`` begins the sentence: who needs one."""
    if is_moment(partition_key):
        why = f"the partition key {partition_key!r} of this run says when one begins, and not how long it is"
        hint = (
            'Have the timetable write keys by their length, such as key_format="%Y-%m-%d" for days; or say it: '
            'data_interval="{{ partition_key }}/P1D" of the task, --interval on the command line.'
        )
    else:
        why = f"the partition key {partition_key!r} of this run names none"
        hint = (
            f"Keys that name an interval are {FORMS}. Write {{{PARTITION_KEY}}} in place of times, or give the "
            "interval: data_interval= of the task, --interval on the command line."
        )
    return ConfigError(f"{who}, and {why}.", hint=hint, key=PARTITION_KEY, value=partition_key, **facts)


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
        moments = [months_later(end, -months * back) for back in range(count, -1, -1)]
    elif (end - start) % timedelta(days=1) == timedelta(0):
        moments = [end - (end - start) * back for back in range(count, -1, -1)]
    else:
        length = interval.end - interval.start
        starts = [interval.start - length * back for back in reversed(range(count))]
        return [DataInterval(start, start + length) for start in starts]
    borders = [moment.replace(tzinfo=zone) for moment in moments]
    return [*itertools.starmap(DataInterval, itertools.pairwise(borders[:-1])), interval]


def render_path(
    template: str,
    *,
    stream: str,
    interval: DataInterval | None,
    run_id: str,
    config: Mapping[str, str],
    partition_key: str | None = None,
) -> str:
    """A path with its ``{…}`` fields filled in.

    Fields: ``data_interval_start`` and ``data_interval_end`` (with a strftime format after a colon), ``ds`` and
    ``ds_nodash`` (the start's date), ``run_id``, ``partition_key``, and ``config[key]``. ``{{`` and ``}}`` stand for
    braces. Times follow UTC, or the zone that is named behind a ``|``. What comes with a run (its id, partition key,
    configuration) is one name of a file or folder: values with ``/``, ``..`` or ``*`` in them would lead anywhere, and
    are rejected.

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
            needed = needed_interval(interval, stream=stream, what=f"path {template!r}", partition_key=partition_key)
            parts.append(_time_text(field, needed))
        elif field.name == RUN_ID:
            parts.append(_plain(template, RUN_ID, run_id, stream))
        elif field.name == PARTITION_KEY:
            if partition_key is None:
                raise ConfigError(
                    f"The path {template!r} of the stream {stream!r} names the partition key, and this run has none.",
                    hint="Schedule the Dag with CronPartitionTimetable or PartitionedAssetTimetable (Airflow 3.2 or "
                    "later), trigger it with a partition key, or give --partition-key on the command line.",
                    key=PARTITION_KEY,
                    stream=stream,
                )
            parts.append(_plain(template, PARTITION_KEY, partition_key, stream))
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
    if not any(field.name in (RUN_ID, PARTITION_KEY) or field.config_key is not None for field in fields):
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
    pattern = re.search(r"[*?\[]", folder)
    if pattern is not None:
        folder, whole = folder[: pattern.start()], False
    return (folder if whole else folder.rpartition("/")[0]).rstrip("/")


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


def micros_of(moment: datetime) -> int:
    """Return a moment in microseconds since 1970, UTC."""
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


_LENGTH = re.compile(r"P(?!$)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")


def _after(start: datetime, length: str) -> datetime:
    """Return the moment after a length of ISO 8601."""
    match = _LENGTH.fullmatch(length)
    try:
        if match is None:
            raise ValueError(length)
        years, months, weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        moved = months_later(start, 12 * years + months)
        return moved + timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{length!r} is not a length of time.",
            hint="Write it as ISO 8601 does: P1D (a day), P1M (a month), PT6H (six hours).",
            key="data_interval",
            value=length,
        ) from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is not a moment.", hint="Write it as 2026-01-01T05:00:00+00:00.", key="data_interval", value=text
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
