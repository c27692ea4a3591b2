"""The tables of one task: made, filled from side inputs, kept from epoch to epoch, reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_samza.application.descriptors import TableKind
from airflow_samza.application.operator_specs import SendToTableSpec, TableJoinSpec
from airflow_samza.errors import NotYet
from airflow_samza.planner.stages import tables_of
from airflow_samza.systems.system import MessageRun
from airflow_samza.task.conform import Conformer
from airflow_samza.task.reading import TaskInput
from airflow_samza.task.report import InputReport, TableReport
from airflow_samza.task.stage_program import StageProgram
from airflow_samza.task.table_store import TableStore

if TYPE_CHECKING:
    import pyarrow as pa


def section_tables(program: StageProgram, section: int) -> list[str]:
    """The ids of the tables that the operators of one section read or write."""
    specs = (program.operators[op_id].spec for op_id in program.sections[section].operators)
    return sorted({table.table_id for spec in specs for table in tables_of(spec) if table.kind is not TableKind.REMOTE})


def side_partitions(program: StageProgram, stream_id: str, task: int) -> Sequence[int]:
    """The partitions of a side input that feed the tables of a task: that of its number; every task reads all of a broadcast."""
    planned = program.plan.stream(stream_id)
    if planned.broadcast:
        return range(max(planned.partitions, 1))
    return [task] if task < planned.partitions else []


class TaskTables:
    """The tables of one section. ``stores`` are the tables by id: those given, and new ones for the rest."""

    def __init__(self, program: StageProgram, section: int, stores: dict[str, TableStore] | None = None) -> None:
        self._program = program
        self._ids = section_tables(program, section)
        self.stores = stores if stores is not None else {}
        for table_id in self._ids:
            self.stores.setdefault(table_id, self._made(table_id))

    def _made(self, table_id: str) -> TableStore:
        schema = self._program.tables.get(table_id)
        if schema is None:
            raise NotYet(
                f"The columns of table {table_id!r} are not known.",
                hint=f'Declare them: schema= of table "{table_id}".',
                table=table_id,
            )
        table = self._program.spec.table(table_id)
        users = [o.spec for o in self._program.operators.values() if any(used.table_id == table_id for used in tables_of(o.spec))]
        timed = all(isinstance(user, SendToTableSpec | TableJoinSpec) and user.time_column is not None for user in users)
        return TableStore(table_id, schema, table.key, table.ttl_ms, by_event_time=timed)

    def fill(self, side_inputs: Sequence[TaskInput], reports: dict[str, InputReport]) -> None:
        """Reads side inputs to their end, each message a row (S1); ``reports`` get what was read."""
        for source in side_inputs:
            report = reports.setdefault(source.stream_id, InputReport())
            report.next_offsets[source.partition] = source.start
            conformers = {
                table_id: Conformer(self.stores[table_id].schema, f"side input {source.stream_id!r}")
                for table_id in self._fed_by(source.stream_id)
            }
            for envelope in source.envelopes:
                if isinstance(envelope, MessageRun):
                    report.messages += envelope.batch.num_rows
                    report.bytes += envelope.batch.nbytes
                    report.next_offsets[source.partition] = envelope.offset + envelope.batch.num_rows
                    for table_id, conformer in conformers.items():
                        self.stores[table_id].write(conformer.conform(envelope.batch, envelope.offset))
                else:
                    report.control_messages += 1
                    report.next_offsets[source.partition] = envelope.offset + 1

    def _fed_by(self, stream_id: str) -> list[str]:
        tables = [self._program.spec.table(table_id) for table_id in self._ids]
        fed = [table for table in tables if stream_id in table.side_inputs]
        for table in fed:
            if table.processor is not None:
                raise NotYet(
                    f"Table {table.table_id!r} has a processor of side inputs, which this version cannot run yet.",
                    hint="Leave processor= out: each message is then a row of the table.",
                    table=table.table_id,
                )
        return [table.table_id for table in fed]

    def snapshot(self) -> dict[str, Mapping[str, pa.Table]]:
        """What tables that the application writes hold, by ``table:<id>``; those of side inputs are filled anew."""
        found: dict[str, Mapping[str, pa.Table]] = {}
        for table_id in self._ids:
            tables = self.stores[table_id].snapshot() if not self._program.spec.table(table_id).side_inputs else {}
            if tables:
                found[f"table:{table_id}"] = tables
        return found

    def restore(self, state: Mapping[str, Mapping[str, pa.Table]]) -> None:
        """Takes over what :meth:`snapshot` gave."""
        for table_id in self._ids:
            tables = state.get(f"table:{table_id}")
            if tables:
                self.stores[table_id].restore(tables)

    def reports(self, *, filled: bool) -> dict[str, TableReport]:
        """Rows and bytes of the tables that are looked up, and of all when side inputs ``filled`` any."""
        joined = {c.spec.table.table_id for c in self._program.operators.values() if isinstance(c.spec, TableJoinSpec)}
        return {
            table_id: TableReport(store.count, store.nbytes, store.ignored)
            for table_id, store in self.stores.items()
            if filled or table_id in joined
        }
