"""The buffer of one side of a stream join: rows are kept until no partner of theirs can come any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_samza.task.operators.stream_join.runs import SortedRun, as_mask, as_rows, merged

if TYPE_CHECKING:
    import pyarrow as pa


class Buffer:
    """Runs of rows, the longest first: each at least twice as long as the one behind it, so a row is merged few times.

    ``outer``: rows that never had a partner come out when they go.
    """

    def __init__(self, outer: bool) -> None:
        self.outer = outer
        self.runs: list[SortedRun] = []

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def add(self, run: SortedRun) -> None:
        """Keeps rows."""
        self.runs.append(run)
        while len(self.runs) > 1 and len(self.runs[-2]) < 2 * len(self.runs[-1]):
            self.runs[-2:] = [merged(*self.runs[-2:])]

    def evict(self, bound: int) -> Iterator[pa.RecordBatch]:
        """Drop the rows with times before ``bound`` (µs); return those that had no partner."""
        import numpy as np

        kept = []
        for run in self.runs:
            if run.least_time >= bound:
                kept.append(run)
                continue
            gone = run.times < bound
            yield from self._alone(run, gone)
            left = len(run) - int(np.count_nonzero(gone))
            if not left:
                continue
            if 2 * left < len(run):
                run = run.without(gone)
            else:  # until the run is merged these rows lie there, have no partner to come, and were handed out
                run.least_time = int(run.times[~gone].min())
                if run.matched is not None:
                    run.matched |= gone
            kept.append(run)
        self.runs = sorted(kept, key=len, reverse=True)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Drop all rows; return those that had no partner."""
        import numpy as np

        runs, self.runs = self.runs, []
        for run in runs:
            yield from self._alone(run, np.ones(len(run), np.bool_))

    def _alone(self, run: SortedRun, gone: Any) -> Iterator[pa.RecordBatch]:
        import numpy as np

        if run.matched is None:
            return
        rows = np.flatnonzero(gone & ~run.matched)
        if len(rows):
            yield run.rows.take(as_rows(rows))

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return the rows kept: ``time``, ``matched`` and, behind ``message.``, the columns of the messages."""
        import numpy as np
        import pyarrow as pa

        fields = [pa.field("time", pa.int64()), pa.field("matched", pa.bool_()), *(_named(field) for field in schema)]
        parts = []
        for run in self.runs:
            kept = np.flatnonzero(run.times >= run.least_time)
            rows = run.rows if len(kept) == len(run) else run.rows.take(as_rows(kept))
            matched = run.matched[kept] if run.matched is not None else np.zeros(len(kept), np.bool_)
            columns = [as_rows(run.times[kept]), as_mask(matched), *rows.columns]
            parts.append(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))
        return pa.Table.from_batches(parts, pa.schema(fields))


def messages_of(table: pa.Table) -> pa.RecordBatch:
    """The messages in a table of :meth:`Buffer.table`."""
    import pyarrow as pa

    kept = {
        name.removeprefix("message."): table.column(name) for name in table.column_names if name.startswith("message.")
    }
    together = pa.table({name: column.combine_chunks() for name, column in kept.items()})
    return together.combine_chunks().to_batches()[0]


def _named(field: pa.Field) -> pa.Field:
    return field.with_name(f"message.{field.name}")
