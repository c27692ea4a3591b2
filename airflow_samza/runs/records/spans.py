"""Times for which attempts have run a stage, measured by a clock that neither jumps nor runs on (decision 102).

The time of a stage is that of its attempts: what passes between a failure and the retry is nobody's. Stage runners
measure them; results and progress sum them up.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Span:
    """The time for which an attempt has run its stage, for ``seconds``.

    ``began_at`` is when its first epoch was decided (seconds since 1970, by the clock of its runner).
    """

    attempt: int
    began_at: float
    seconds: float


def seconds_of(spans: Iterable[Span]) -> float:
    """Return how long attempts have run, one after the other."""
    return round(sum(span.seconds for span in spans), 6)


def covered(spans: Iterable[Span]) -> float:
    """Return for how many seconds at least one of some spans was running."""
    total, reached = 0.0, float("-inf")
    for span in sorted(spans, key=lambda one: one.began_at):
        end = span.began_at + span.seconds
        total += max(end - max(span.began_at, reached), 0.0)
        reached = max(reached, end)
    return round(total, 6)


def prolonged(spans: Sequence[Span], attempt: int, seconds: float) -> tuple[Span, ...]:
    """Return spans of which an attempt's goes on for some seconds more; an attempt that has none has not begun."""
    if not spans or spans[-1].attempt != attempt or seconds <= 0:
        return tuple(spans)
    return (*spans[:-1], replace(spans[-1], seconds=spans[-1].seconds + seconds))


class Stopwatch:
    """Measures how long an attempt runs; ``former`` are the spans of the attempts before it."""

    def __init__(self, attempt: int, former: Sequence[Span] = ()) -> None:
        self.former = tuple(former)
        self._attempt = attempt
        self._began_at = 0.0
        self._since: float | None = None
        self._ran: float | None = None

    def start(self) -> None:
        """Begin to measure, at the attempt's first epoch; one that measures already goes on."""
        if self._since is None:
            self._began_at, self._since = time.time(), time.monotonic()

    def stop(self) -> None:
        """End to measure: the attempt is over."""
        if self._since is not None and self._ran is None:
            self._ran = time.monotonic() - self._since

    @property
    def has_begun(self) -> bool:
        """Return whether it measures, or has measured."""
        return self._since is not None

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans so far, in the order of the attempts."""
        if self._since is None:
            return self.former
        ran = time.monotonic() - self._since if self._ran is None else self._ran
        return (*self.former, Span(self._attempt, self._began_at, round(ran, 6)))

    @property
    def seconds(self) -> float:
        """The time for which attempts have run so far."""
        return seconds_of(self.spans)
