"""Changes of rows in the order of a sequence: the newest row of each key, or its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.descriptors import ROW_DELETED
from airflow_samza.application.operator_specs import ApplyChangesSpec
from airflow_samza.schema import Field, Schema
from airflow_samza.storage.columnar import with_keys
from airflow_samza.storage.key_index import as_rows
from airflow_samza.task.checkpoint import fitting_state
from airflow_samza.task.messages.conform import MESSAGE, SchemaConformer, kept_rows
from airflow_samza.task.operators.aggregation.accumulators import key_codes
from airflow_samza.task.operators.distinct.chains import Flags, Longs
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.tables.store import TableStore


class ApplyChanges(Operator[ApplyChangesSpec]):
    """Changes without those that come behind a newer one of their key, or again.

    Of each key the sequence of its newest change is kept, of type 2 the message, too; also where it deletes. A change
    is *late* if its sequence is less than that, and a *duplicate* if it is the same. Of type 1 the changes go on. Of
    type 2 each is a row that is valid from its sequence on to that of the next one: a row that was current goes on
    again when it has ended.
    """

    def __init__(self, spec: ApplyChangesSpec, messages: Schema, output: Schema) -> None:
        super().__init__(spec, messages, output)
        self.late = self.duplicates = self.incomplete = 0
        self._arrow = output.to_arrow()
        self._history = spec.scd_type == 2
        fields = [messages[name] for name in spec.key]
        key = [Field(f"k{place}", field.type) for place, field in enumerate(fields)]
        order = [Field(f"s{place}", messages[name].type) for place, name in enumerate(spec.sequence_by)]
        kept = [*key, *order]
        if self._history:
            kept += [Field(MESSAGE + field.name, field.type) for field in messages.fields]
        self._order = [field.name for field in order]
        self._schema = Schema(tuple(kept))
        self._kept = self._schema.to_arrow()
        self._newest = TableStore(spec.title, self._schema, tuple(field.name for field in key))

    def metrics(self) -> Mapping[str, float]:
        """Return the counts of changes that are left out."""
        return {
            "late_messages": self.late,
            "duplicate_messages": self.duplicates,
            "messages_without_sequence": self.incomplete,
        }

    # -- messages ------------------------------------------------------------------------------------------------------

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the changes that are newer than all before, or the rows whose history they change."""
        batch, incomplete = with_keys(batch, (*self.spec.key, *self.spec.sequence_by))
        self.incomplete += incomplete
        if not batch.num_rows:
            return
        keys = [batch.column(name) for name in self.spec.key]
        places = self._newest.find(keys)
        former = self._newest.take(places, self._order)
        ranks, former_ranks = self._ranks(batch, former, places >= 0)
        codes = key_codes(keys, batch.num_rows)
        order = np.argsort(codes, kind="stable")
        newer = order[self._newer(codes[order], ranks[order], former_ranks[order])]
        if not len(newer):
            return
        own = codes[newer]
        last = np.append(own[1:] != own[:-1], True)
        if self._history:
            yield from self._versions(batch, newer, last, places)
        else:
            yield batch if len(newer) == batch.num_rows else batch.take(as_rows(np.sort(newer)))
        self._keep(batch.take(as_rows(newer[last])))

    def _ranks(self, batch: pa.RecordBatch, former: list[pa.Array], known: Flags) -> tuple[Longs, Longs]:
        """Return numbers in the order of the sequences of changes, and of the newest before; -1: there is none."""
        numbers = []
        for mine, theirs in zip(self.spec.sequence_by, former, strict=True):
            own = batch.column(mine)
            values = pa.concat_arrays([own, theirs.filter(pa.array(known)).cast(own.type)])
            numbers.append(pc.rank(values, tiebreaker="dense").to_numpy().astype(np.int64))
        ranks = numbers[0]
        for more in numbers[1:]:
            _, ranks = np.unique(ranks * (len(more) + 1) + more, return_inverse=True)
        before = np.full(batch.num_rows, -1, np.int64)
        before[known] = ranks[batch.num_rows :]
        return ranks[: batch.num_rows], before

    def _newer(self, codes: Longs, ranks: Longs, before: Longs) -> Flags:
        """Return which changes, in the order of their keys, are newer than all of their key that came before."""
        width = int(ranks.max(initial=0)) + 2
        values = codes * width + ranks + 1
        most = np.maximum.accumulate(values)
        reached = np.maximum(np.append(-1, most[:-1]), codes * width + before + 1)
        newer = values > reached
        same = int((values == reached).sum())
        self.duplicates += same
        self.late += len(newer) - int(newer.sum()) - same
        return np.asarray(newer, np.bool_)

    # -- history -------------------------------------------------------------------------------------------------------

    def _versions(self, batch: pa.RecordBatch, newer: Longs, last: Flags, places: Longs) -> Iterator[pa.RecordBatch]:
        """Return the rows that were current until now, with their ends, and the new ones."""
        since = batch.column(self.spec.sequence_by[0]).take(as_rows(newer))
        first = np.append(True, last[:-1])
        ended = first & (places[newer] >= 0)
        names = [MESSAGE + name for name in self.input.names]
        if ended.any():
            columns = self._newest.take(places[newer[ended]], names)
            former = pa.RecordBatch.from_arrays(columns, names=list(self.input.names))
            begins = self._newest.take(places[newer[ended]], ["s0"])[0]
            yield from self._rows(former, begins, since.filter(pa.array(ended)))
        following = np.append(np.arange(1, len(newer)), 0)
        until = since.take(pa.array(following, mask=last))
        yield from self._rows(batch.take(as_rows(newer)), since, until)

    def _rows(self, messages: pa.RecordBatch, begins: pa.Array, ends: pa.Array) -> Iterator[pa.RecordBatch]:
        columns = [messages.column(name) for name in self._arrow.names[:-3]]
        columns += [begins, ends, ends.is_null()]
        rows = pa.RecordBatch.from_arrays(columns, self._arrow.names).cast(self._arrow)
        if ROW_DELETED in messages.schema.names:
            rows = rows.filter(pc.invert(messages.column(ROW_DELETED).fill_null(False)))
        if rows.num_rows:
            yield rows

    # -- state ---------------------------------------------------------------------------------------------------------

    def _keep(self, changes: pa.RecordBatch) -> None:
        columns: list[Any] = [changes.column(name) for name in (*self.spec.key, *self.spec.sequence_by)]
        if self._history:
            columns += changes.columns
        self._newest.write(pa.RecordBatch.from_arrays(columns, self._kept.names).cast(self._kept))

    def snapshot(self) -> Mapping[str, pa.Table]:
        """The newest change of each key."""
        return self._newest.snapshot()

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over the newest changes; columns that messages have not any more are left out, new ones are null."""
        conformer = SchemaConformer(self._schema, f"what {self.spec.title} kept", fills=True)
        with fitting_state(self.spec.title):
            self._newest.restore({name: kept_rows(table, conformer) for name, table in tables.items()})
