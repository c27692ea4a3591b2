"""The checkpoint of a task: all from which its next epoch continues.

It holds offsets, the bookkeeping of control messages, watermarks and its operators' progress. The stage runner keeps it
from epoch to epoch, and the test driver does.

Source: rules C6, C9. The operators' own state are tables, beside it (:class:`TaskStart`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_samza.control.watermarks import EMITTED, END_OF_TIME, NONE_YET, SILENCE
from airflow_samza.errors import StateError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TaskCheckpoint:
    """One task after an epoch, as plain values.

    ``offsets``: the next offset to read, by stream and partition; ``heads``: where the partitions ended when the run
    began; ``control``: both bookkeepings of control messages; ``heard``: when each producer was heard last;
    ``sources``: state of the watermark strategies of sources, by stream and partition; ``operators``: progress by
    operator id; ``sent``: the last watermark sent, by output; ``chooser``: the state of choosers, by phase of
    reading.
    """

    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    heads: Mapping[str, Mapping[int, int | None]] = field(default_factory=dict)
    control: Mapping[str, Any] = field(default_factory=dict)
    heard: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    operators: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sent: Mapping[str, int] = field(default_factory=dict)
    chooser: Mapping[str, Any] = field(default_factory=dict)

    def offset(self, stream_id: str, partition: int) -> int | None:
        """The next offset to read of a partition; None when it was never read."""
        return self.offsets.get(stream_id, {}).get(partition)

    def for_next_run(self, external: Iterable[str]) -> TaskCheckpoint:
        """Return what carries over from a run that ended an input range to the next run (rule C9).

        That is how far the ``external`` inputs were read, and how far time has come; topics of the run, and its ends,
        go with it.
        """
        kept = set(external)

        def of(entries: Mapping[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in entries.items() if name in kept}

        watermarks = [
            {**entry, "ended": {}, EMITTED: _before_the_end(entry[EMITTED])}
            for entry in self.control.get("watermarks", ())
            if entry["stream"] in kept
        ]
        operators = {
            op_id: {"watermark": _without_ends(progress["watermark"])} for op_id, progress in self.operators.items()
        }
        silences = [
            {name: entry[name] for name in ("stream", "partition", *SILENCE) if name in entry}
            for entry in self.heard.get("watermarks", ())
            if entry["stream"] in kept
        ]
        return TaskCheckpoint(
            offsets=of(self.offsets),
            control={"watermarks": watermarks},
            heard={"watermarks": silences},
            sources=of(self.sources),
            operators=operators,
        )

    def merged(self, later: TaskCheckpoint) -> TaskCheckpoint:
        """Return this checkpoint of a task's first section together with that of a section behind it."""
        return replace(self, operators={**self.operators, **later.operators}, sent={**self.sent, **later.sent})


@dataclass(frozen=True)
class TaskStart:
    """The start of an epoch of a task: the checkpoint of the one before, and its operators' tables by operator id."""

    checkpoint: TaskCheckpoint
    state: Mapping[str, Mapping[str, pa.Table]] = field(default_factory=dict)


@contextmanager
def fitting_state(title: str) -> Iterator[None]:
    """Turn what Arrow raises of kept columns of another form into a :class:`~airflow_samza.errors.StateError`.

    ``title`` names the operator or table that kept them in a sentence.
    """
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, KeyError, IndexError) as error:
        what = " ".join(str(error).split())
        raise StateError(
            f"The state that was kept of {title} does not fit it any more: {what[:200]}.",
            hint="Change the code back; or give it a new id and name the former one in dropped=[…]; or forget the "
            "state: airflow-samza state reset.",
            operator=title,
        ) from error


def _without_ends(watermark: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operator's watermarks without those of inputs that had ended for good.

    They are read again, and have to end again.
    """
    upstreams = {name: _before_the_end(timestamp) for name, timestamp in watermark["upstreams"].items()}
    return {"upstreams": upstreams, "output": _before_the_end(watermark["output"])}


def _before_the_end(timestamp: int) -> int:
    """Return a watermark, but none where it was the end of a drained run: no later one would be greater."""
    return NONE_YET if timestamp == END_OF_TIME else timestamp
