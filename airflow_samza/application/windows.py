"""Windows and aggregations of users: ``tumbling("1 minute")``, ``count()``, ``avg("delay")``.

Values only. The application checks them, the planner describes them, and the operators of windows and aggregations
compute them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow_samza.application.rejections import checked_call, reject
from airflow_samza.application.times import duration_ms, duration_text, is_time_zone, time_zone_hint

AGGREGATE_FUNCTIONS = (
    "count",
    "count_distinct",
    "approx_count_distinct",
    "sum",
    "min",
    "max",
    "avg",
    "first",
    "last",
    "collect",
)

DEFAULT_RSD = 0.05
"""The relative standard deviation of approximate counts unless it is set, as in Spark."""


@dataclass(frozen=True)
class Aggregation:
    """One aggregation: the output column ``name``, the ``function`` and the input ``column`` (None: whole messages).

    ``rsd`` is the relative standard deviation of an approximate count.

    Null columns are left out, as in SQL; ``count()`` counts messages, ``count("x")`` the non-null values of x.
    """

    function: str
    column: str | None = None
    name: str = ""
    rsd: float | None = None


@checked_call
def count(column: str | None = None) -> Aggregation:
    """Count the messages, or the values of a column that are not null. The result is a ``bigint``, never null.

    :param column: The column; without one messages are counted.
    """
    return Aggregation("count", column)


@checked_call
def count_distinct(column: str) -> Aggregation:
    """Count the different values of a column that are not null, exactly. The result is a ``bigint``, never null.

    :param column: The column.
    """
    return Aggregation("count_distinct", column)


@checked_call
def approx_count_distinct(column: str, rsd: float = DEFAULT_RSD) -> Aggregation:
    """Count the different values of a column that are not null, approximately and in little memory.

    The result is a ``bigint``, never null.

    :param column: The column, of a plain type (no array, map or struct).
    :param rsd: The relative standard deviation, from 0.005 to 0.39, as in Spark: two of three results are that near.
    """
    if isinstance(rsd, bool) or not isinstance(rsd, int | float) or not 0.005 <= rsd <= 0.39:
        reject(
            f"approx_count_distinct got rsd={rsd!r}",
            hint="Write a number between 0.005 and 0.39; below that use count_distinct.",
            value=repr(rsd),
        )
    return Aggregation("approx_count_distinct", column, rsd=float(rsd))


@checked_call
def sum_(column: str) -> Aggregation:
    """Sum a numeric column. The result is a ``bigint`` for integers, otherwise ``double`` or ``decimal``.

    It is null where there is no value. A sum of integers or decimals that does not fit into its type is an error.

    :param column: The column.
    """
    return Aggregation("sum", column)


@checked_call
def min_(column: str) -> Aggregation:
    """Return the smallest value of a column, in its own type; null where there is no value.

    :param column: The column.
    """
    return Aggregation("min", column)


@checked_call
def max_(column: str) -> Aggregation:
    """Return the greatest value of a column, in its own type; null where there is no value.

    :param column: The column.
    """
    return Aggregation("max", column)


@checked_call
def avg(column: str) -> Aggregation:
    """Return the mean of a numeric column; null where there is no value.

    The result is a ``double``, of decimals an exact ``decimal`` with four digits more.

    :param column: The column.
    """
    return Aggregation("avg", column)


@checked_call
def first(column: str) -> Aggregation:
    """Return the first value of a column that is not null, in the order in which the task reads.

    :param column: The column.
    """
    return Aggregation("first", column)


@checked_call
def last(column: str) -> Aggregation:
    """Return the last value of a column that is not null, in the order in which the task reads.

    :param column: The column.
    """
    return Aggregation("last", column)


@checked_call
def collect(column: str) -> Aggregation:
    """Return all values of a column that are not null as an array, in the order in which the task reads.

    :param column: The column.
    """
    return Aggregation("collect", column)


@dataclass(frozen=True)
class WindowSpec:
    """A kind of window: ``tumbling``, ``hopping`` or ``session``; lengths in ms.

    ``hop_ms`` is the distance of two starts (hopping), ``gap_ms`` the longest pause within a session. ``time`` is
    ``event`` or ``processing``; ``zone`` the time zone in which days start. ``early_every`` (messages) and
    ``early_after_ms`` ask for results before a window is closed.
    """

    kind: str
    duration_ms: int | None = None
    hop_ms: int | None = None
    gap_ms: int | None = None
    time: str = "event"
    zone: str = "UTC"
    early_every: int | None = None
    early_after_ms: int | None = None
    accumulating: bool = False

    @property
    def is_early(self) -> bool:
        """Return whether windows have results before they are closed."""
        return self.early_every is not None or self.early_after_ms is not None

    @property
    def text(self) -> str:
        """The window in words.

        >>> hopping("1 hour", "5 minutes").text, session("30 s", time="processing").text
        ('hopping 1 hour every 5 minutes', 'session with gaps of 30 seconds, processing time')
        """
        if self.gap_ms is not None:
            parts = [f"{self.kind} with gaps of {duration_text(self.gap_ms)}"]
        else:
            parts = [f"{self.kind} {duration_text(self.duration_ms or 0)}"]
        if self.hop_ms is not None:
            parts[0] += f" every {duration_text(self.hop_ms)}"
        if self.time != "event":
            parts.append(f"{self.time} time")
        if self.zone != "UTC":
            parts.append(self.zone)
        if self.early_every is not None:
            parts.append(f"early every {self.early_every} messages")
        if self.early_after_ms is not None:
            parts.append(f"early after {duration_text(self.early_after_ms)}")
        if self.accumulating:
            parts.append("accumulating")
        return ", ".join(parts)


@checked_call
def tumbling(
    duration: str | int | timedelta,
    *,
    time: str = "event",
    zone: str = "UTC",
    early_every: int | None = None,
    early_after: str | int | timedelta | None = None,
    accumulating: bool = False,
) -> WindowSpec:
    """Return windows of one length, one after the other.

    >>> tumbling("1 hour", early_after="5 minutes").text
    'tumbling 1 hour, early after 5 minutes'

    :param duration: The length: ms, a ``timedelta`` or a text such as ``"5 minutes"``.
    :param time: ``"event"``: windows go by the event time of messages; ``"processing"``: by the clock.
    :param zone: The time zone in which windows start. In UTC they start at whole multiples of the length since 1970,
        otherwise at local midnight or at a whole part of the local day.
    :param early_every: A number of messages after which a window has an early result.
    :param early_after: A length of time after which a window has an early result.
    :param accumulating: If true, an early result holds everything so far; if false, what came since the former one.
    """
    length = duration_ms(duration)
    return WindowSpec(
        "tumbling",
        duration_ms=length,
        time=_time(time),
        zone=_zone(zone, length, length),
        **_early(early_every, early_after, accumulating),
    )


@checked_call
def hopping(
    duration: str | int | timedelta,
    hop: str | int | timedelta,
    *,
    time: str = "event",
    zone: str = "UTC",
    early_every: int | None = None,
    early_after: str | int | timedelta | None = None,
    accumulating: bool = False,
) -> WindowSpec:
    """Return windows of one length that start at a fixed distance, and so overlap.

    A distance that is longer than the length is rejected: messages in between would be lost.

    >>> hopping("1 hour", "5 minutes").text
    'hopping 1 hour every 5 minutes'

    :param duration: The length: ms, a ``timedelta`` or a text such as ``"1 hour"``.
    :param hop: The distance of two starts.
    :param time: ``"event"`` or ``"processing"``, as of :func:`tumbling`.
    :param zone: The time zone in which windows start, as of :func:`tumbling`.
    :param early_every: A number of messages after which a window has an early result.
    :param early_after: A length of time after which a window has an early result.
    :param accumulating: If true, an early result holds everything so far; if false, what came since the former one.
    """
    length, distance = duration_ms(duration), duration_ms(hop)
    if distance > length:
        reject(
            f"A hopping window of {length} ms that starts every {distance} ms would lose the messages in between",
            hint="Make the hop at most as long as the window, or filter the messages first.",
            duration_ms=length,
            hop_ms=distance,
        )
    return WindowSpec(
        "hopping",
        duration_ms=length,
        hop_ms=distance,
        time=_time(time),
        zone=_zone(zone, length, distance),
        **_early(early_every, early_after, accumulating),
    )


@checked_call
def session(
    gap: str | int | timedelta,
    *,
    time: str = "event",
    early_every: int | None = None,
    early_after: str | int | timedelta | None = None,
    accumulating: bool = False,
) -> WindowSpec:
    """Return windows that end when no message of a key came for a while.

    >>> session("30 minutes").text
    'session with gaps of 30 minutes'

    :param gap: The longest time between two messages of a session.
    :param time: ``"event"`` or ``"processing"``, as of :func:`tumbling`.
    :param early_every: A number of messages after which a window has an early result.
    :param early_after: A length of time after which a window has an early result.
    :param accumulating: If true, an early result holds everything so far; if false, what came since the former one.
    """
    return WindowSpec(
        "session", gap_ms=duration_ms(gap), time=_time(time), **_early(early_every, early_after, accumulating)
    )


def _time(time: str) -> str:
    if time not in ("event", "processing"):
        reject(f"{time!r} is not a kind of time", hint='Windows go by time="event" or time="processing".', value=time)
    return time


def _zone(zone: str, length: int, hop: int) -> str:
    if not is_time_zone(zone):
        reject(f"{zone!r} is not a time zone", hint=time_zone_hint(zone), value=zone)
    if zone != "UTC" and (length % hop or (hop % _DAY and _DAY % hop)):
        reject(
            f"Windows of {length} ms that start every {hop} ms do not fit into the days of the time zone {zone}",
            hint="In a time zone, windows start every day or every few days, or at parts of a day (1, 2, 3, 4, 6, 8, "
            "12 hours, …), and their length is a multiple of that distance.",
            value=zone,
        )
    return zone


_DAY = 86_400_000


def _early(every: int | None, after: str | int | timedelta | None, accumulating: bool) -> dict[str, Any]:
    if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
        reject(f"early_every={every!r} is not a number of messages", hint="Write a whole number from 1.", value=every)
    if accumulating and every is None and after is None:
        reject(
            "accumulating=True is about early results, and these windows have none",
            hint="Give early_every= or early_after=, or leave accumulating= out.",
        )
    return {
        "early_every": every,
        "early_after_ms": None if after is None else duration_ms(after),
        "accumulating": bool(accumulating),
    }
