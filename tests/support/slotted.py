"""An output of files or of a log, written by runs of several applications by slots, for tests (rule O1)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from airflow_samza.runs.records.names import Generation, writer_name
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.capabilities import FixesOutputs, ReplacesSlots
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import (
    MessageRun,
    OffsetRange,
    Publication,
    StreamSpec,
    System,
    SystemBinding,
    SystemStreamPartition,
)

_attempts = itertools.count()

TABLES = ("iceberg", "delta")
"""Kinds whose streams are tables."""

WHOLE = ("files", *TABLES)
"""Kinds that are bound to a root of their own, and read as a whole."""


def day(number: int, days: int = 1, *, application: str = "app", app_id: str = "1", **more: Any) -> OutputSlot:
    """Return the slot of some days of January 2013."""
    first, last = (f"2013-01-{at:02}T00:00:00+00:00" for at in (number, number + days))
    return OutputSlot(application, app_id, (first, last), **more)


class Slotted:
    """An output in a system, below a root, or where the options of its binding say."""

    def __init__(self, kind: str, root: str, options: Mapping[str, Any] | None = None) -> None:
        self.kind = kind
        self.root = root
        self.options = dict(options) if options is not None else {"root": root} if kind in WHOLE else {}
        self.system: System = self.bound()
        made = (("table", "web.out"), ("create", "true")) if kind in TABLES else ()
        self.stream = StreamSpec("out", partitions=1, schema="id bigint", written=True, options=made)
        self.system.create([self.stream])

    def stage(
        self, ids: Sequence[int], stage: str = "stage", generation: str = "1.1", epoch: int = 0, run: str = ""
    ) -> dict[int, dict[str, Any]]:
        """Stage rows as one task does."""
        writer = writer_name(stage, Generation.parse(generation), epoch, 0)
        if isinstance(self.system, FixesOutputs):
            producer = self.system.producer(self.stream, writer, self.system.fix_output(self.stream, None, run))
        else:
            producer = self.system.producer(self.stream, writer)
        if ids:
            producer.write(0, pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())}))
        described: dict[str, Any] = json.loads(json.dumps(producer.finish()))
        return {0: described}

    def publication(
        self,
        run: str,
        ids: Sequence[int],
        slot: OutputSlot | None,
        generation: str = "1.1",
        epoch: int = 0,
        *,
        stage: str = "stage",
        final: bool = True,
        root: str = "",
    ) -> Publication:
        """Stage rows, and return their publication by a run; ``run`` may have its application before it."""
        application, _, run_id = run.rpartition("/")
        producer = f"{application or (slot.application if slot is not None else 'app')}/{run_id}/{stage}"
        staged = self.stage(ids, stage, generation, epoch, producer.rpartition("/")[0])
        return Publication(producer, generation, epoch, staged, final=final, slot=slot, root=root)

    def publish(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Publish rows, as :meth:`publication` has them."""
        return self.system.publish(self.stream, self.publication(*arguments, **options))

    def append(self, ids: Sequence[int]) -> None:
        """Add rows as nobody's."""
        name = "by-hand" if self.kind == "files" else "app/by-hand/stage"
        self.system.publish(self.stream, Publication(name, "1.1", next(_attempts), self.stage(ids)))

    def rows(self) -> list[int]:
        """Return the rows that readers find now."""
        # What another process would see: nothing is remembered from before.
        system = self.system if self.kind == "memory" else Slotted.bound(self)
        read = StreamSpec("out", partitions=1, schema="id bigint", options=self.stream.options[:1])
        whole = None if self.kind in WHOLE else OffsetRange(0, system.metadata([read])["out"].head[0])
        found = system.consumer(read).read(SystemStreamPartition("here", "out", 0), whole)
        return sorted(id for run in found if isinstance(run, MessageRun) for id in run.batch.column("id").to_pylist())

    def bound(self) -> System:
        """Return the system as another process binds it."""
        return bind_system("here", SystemBinding(self.kind, self.options), self.root)

    @property
    def slots(self) -> ReplacesSlots:
        """The system, which has slots."""
        assert isinstance(self.system, ReplacesSlots)
        return self.system
