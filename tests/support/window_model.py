"""Windows as a few lines of plain Python, message by message: what the vectorised operator is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.application.windows import WindowSpec


@dataclass
class Open:
    """One open window of one key."""

    key: Any
    start: int
    end: int
    values: list[Any] = field(default_factory=list)
    pane: int = 0
    pending: int = 0


class WindowModel:
    """Times in microseconds; every message is (key, time or None, value).

    ``rows`` are (key, start, end, values[, pane, is_final]).
    """

    def __init__(self, window: WindowSpec) -> None:
        self.window = window
        self.open: list[Open] = []
        self.rows: list[tuple[Any, ...]] = []
        self.late: list[tuple[Any, ...]] = []
        self.without_time = 0
        self.watermark: int | None = None

    def message(self, key: Any, time: int | None, value: Any) -> None:
        """One message."""
        if time is None:
            self.without_time += 1
        elif self.window.gap_ms is not None:
            self._into_session(key, time, value)
        else:
            self._into_fixed(key, time, value)

    def _into_session(self, key: Any, time: int, value: Any) -> None:
        gap = (self.window.gap_ms or 0) * 1000
        if self.watermark is not None and time + gap < self.watermark:
            self.late.append((key, time, value))
            return
        joined = [w for w in self.open if w.key == key and w.start <= time + gap and time <= w.end]
        if not joined:
            joined = [Open(key, time, time + gap)]
            self.open.append(joined[0])
        first = joined[0]
        first.start, first.end = min(time, *(w.start for w in joined)), max(time + gap, *(w.end for w in joined))
        first.values = sorted([v for w in joined for v in w.values], key=lambda v: v[0])  # as they were read
        first.values.append((self._read(), value))
        self.open = [w for w in self.open if w is first or w not in joined]

    def _read(self) -> int:
        self.reads = getattr(self, "reads", 0) + 1
        return self.reads

    def _into_fixed(self, key: Any, time: int, value: Any) -> None:
        length = (self.window.duration_ms or 0) * 1000
        hop = (self.window.hop_ms or self.window.duration_ms or 0) * 1000
        last = time // hop * hop
        starts = [start for start in range(last, last - length, -hop) if start + length > time]
        still = [start for start in reversed(starts) if self.watermark is None or start + length > self.watermark]
        if not still:
            self.late.append((key, time, value))
        for start in still:
            found = next((w for w in self.open if (w.key, w.start) == (key, start)), None)
            if found is None:
                found = Open(key, start, start + length)
                self.open.append(found)
            found.values.append((0, value))
            found.pending += 1
            if self.window.early_every is not None and found.pending == self.window.early_every:
                self._emit(found, False)

    def _emit(self, window: Open, final: bool) -> None:
        row: tuple[Any, ...] = (window.key, window.start, window.end, tuple(value for _, value in window.values))
        self.rows.append((*row, window.pane, final) if self.window.is_early else row)
        window.pane += 1
        window.pending = 0
        if not self.window.accumulating:
            window.values = []

    def reach(self, watermark_ms: int | None) -> None:
        """The watermark has reached a time in ms; None: the end of everything."""
        if watermark_ms is not None:
            self.watermark = max(watermark_ms * 1000, self.watermark or 0)
        session = self.window.gap_ms is not None
        closed = [w for w in self.open if self.watermark_closes(w, session) or watermark_ms is None]
        for window in sorted(closed, key=lambda w: w.end):
            if window.pending or self.window.accumulating or not self.window.is_early:
                self._emit(window, True)
        self.open = [w for w in self.open if w not in closed]

    def watermark_closes(self, window: Open, session: bool) -> bool:
        """Return True if a window is complete."""
        return self.watermark is not None and (window.end < self.watermark if session else window.end <= self.watermark)


def aggregated(values: Sequence[Any]) -> dict[str, Any]:
    """Return each aggregation of the values (whole numbers or None) of a window."""
    known = [value for value in values if value is not None]
    return {
        "n": len(values),
        "known": len(known),
        "total": sum(known) if known else None,
        "least": min(known, default=None),
        "most": max(known, default=None),
        "mean": sum(known) / len(known) if known else None,
        "first": known[0] if known else None,
        "last": known[-1] if known else None,
        "distinct": len(set(known)),
        "about": len(set(known)),  # a handful of values, of which no two share a register
        "all": known,
    }
