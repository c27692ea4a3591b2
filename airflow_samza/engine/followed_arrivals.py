"""An input of a continuous run whose messages arrive in files: each look is read to its end before the next one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.state_history.arrivals import Look, Looks
from airflow_samza.systems.capabilities import TakesArrivals
from airflow_samza.systems.filesystems.filesystem import Filesystem


def read_range(slice_: Mapping[str, Any], look: int = 0) -> dict[str, Any]:
    """Return the range of files for an intent: without the record, which only those need who look for new ones."""
    left = {name: value for name, value in slice_.items() if name not in ("known", "final")}
    return {"look": look, **left}


class FollowedArrivals:
    """The looks of one stage at one input, from the one that its newest intent names."""

    def __init__(
        self,
        files: Filesystem,
        run: RunPlan,
        stream: BoundStream,
        system: TakesArrivals,
        former: Mapping[str, Any] | None,
    ) -> None:
        self._looks = Looks(files, run, stream)
        self._stream = stream
        self._system = system
        self._pause = system.look_seconds(stream.spec)
        self._looked: float | None = None
        self._drained = False
        self.slice: Mapping[str, Any] = former if former is not None else read_range(stream.slice or {})
        """The range that is read now."""
        self.end: bool | None = None
        """The end of the input behind it, when the last look has been taken: for good (True) or for this run."""

    def advance(self, final: bool | None) -> None:
        """Go on to the next look, for when the range has been read; ``final``: the run is to end, and how.

        A drain still reads what has arrived by its first look, a stop only what was decided before.
        """
        if self.end is not None:
            return
        now = time.monotonic()
        if final is None and self._looked is not None and now - self._looked < self._pause:
            return
        number = int(self.slice["look"]) + 1
        look = self._looks.find(number) or self._decided(number, final)
        self._looked = now
        if look is None:
            return
        if look.slice is None:
            self.end = look.end
        else:
            self.slice = read_range(look.slice, number)
            self._looked = None  # there may be more

    def _decided(self, number: int, final: bool | None) -> Look | None:
        arrived = self._looks.intake(number - 1)
        if arrived is None:  # another stage has just decided the look
            return self._looks.find(number)
        if final is None or (final and not self._drained):
            self._drained = final is not None
            news = self._system.arrived(
                self._stream.spec, arrived, first_chunk=self._next_chunk, all_of_it=final is not None
            )
            if news["files"] or news["known"] != arrived:  # what of a table was only rewritten moves its record on
                return self._looks.decide(number, news["known"], {k: v for k, v in news.items() if k != "known"})
        return self._looks.decide(number, arrived, end=final) if final is not None else None

    @property
    def _next_chunk(self) -> int:
        return int(self.slice["first_chunk"]) + len(self.slice["chunks"])
