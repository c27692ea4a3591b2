"""Watermarks of one operator: of its input, and of its output, which operators behind it see.

The run loop keeps one for each operator of a task.
Source: control-messages, "InputWatermark = min { OutputWatermark(task) … }"; rule C4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET, input_watermark


class OperatorWatermark:
    """An operator's watermarks.

    The input's is the minimum over its upstream operators, the output's is what ``function`` makes of it.

    ``upstreams`` are the ids of the operators before it; one that this task does not use (it owns no partition of its
    input) is left out, or arrives as :data:`~airflow_samza.control.watermarks.END_OF_TIME`, and never holds back.
    ``function`` gets the input watermark and returns what operators behind may rely on; None, or less than before,
    leaves the output as it was. Without one the input is passed on. Neither watermark ever goes backwards.

    >>> join = OperatorWatermark(["views", "clicks"])
    >>> join.arrived("views", 7), join.arrived("clicks", 5), join.moved()
    (None, 5, 5)
    >>> join.moved() is None
    True
    """

    def __init__(self, upstreams: Iterable[str], function: Callable[[int], int | None] | None = None) -> None:
        self._upstreams = dict.fromkeys(upstreams, NONE_YET)
        self._function = function
        self.input = input_watermark(self._upstreams.values())
        self.output = NONE_YET

    def arrived(self, upstream: str, timestamp: int) -> int | None:
        """Record an upstream operator's output watermark; return the new input watermark when it moves on.

        The caller then lets the operator handle it, hands on what comes of that, and asks :meth:`moved`.
        """
        self._upstreams[upstream] = max(timestamp, self._upstreams[upstream])
        lowest = input_watermark(self._upstreams.values())
        if lowest <= self.input:
            return None
        self.input = lowest
        return lowest

    def moved(self) -> int | None:
        """Return the new output watermark when it has moved on since the last call; data may move it as well."""
        watermark = self.input
        if (
            self._function is not None and self.input < END_OF_TIME
        ):  # what has ended for good holds nothing back, whatever it says
            said = self._function(self.input)
            watermark = NONE_YET if said is None else said
        if watermark <= self.output:
            return None
        self.output = watermark
        return watermark

    def checkpoint(self) -> dict[str, Any]:
        """Return the state as JSON; it is committed with the offsets (rule C6)."""
        return {"upstreams": dict(self._upstreams), "output": self.output}

    def restore(self, checkpoint: Mapping[str, Any]) -> None:
        """Restore what :meth:`checkpoint` gave; upstream operators that no longer exist are dropped."""
        upstreams = checkpoint.get("upstreams", {})
        self._upstreams = {
            upstream: max(timestamp, int(upstreams.get(upstream, NONE_YET)))
            for upstream, timestamp in self._upstreams.items()
        }
        self.input = input_watermark(self._upstreams.values())
        self.output = max(self.output, int(checkpoint.get("output", NONE_YET)))
