"""The tables of one task: made, filled from side inputs, kept from epoch to epoch, reported.

Tries at tasks hold them, with what a host keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from airflow_samza.application.descriptors import TableKind
from airflow_samza.application.operator_spec import TableUserSpec
from airflow_samza.application.operator_specs import TableJoinSpec
from airflow_samza.errors import InvalidApplication
from airflow_samza.task.checkpoint import fitting_state
from airflow_samza.task.program.stage_program import StageProgram
from airflow_samza.task.report import InputReport, TableReport, TaskReport, added
from airflow_samza.task.tables.store import TableStore

Store = TypeVar("Store", bound=TableStore)


def section_tables(program: StageProgram, section: int) -> list[str]:
    """The ids of the tables that the operators of one section read or write."""
    specs = (program.operators[op_id].spec for op_id in program.sections[section].operators)
    return sorted({table.table_id for spec in specs for table in spec.tables if table.kind is not TableKind.REMOTE})


def as_of_tables(program: StageProgram) -> set[str]:
    """Return the ids of the tables in which a join of the stage looks rows up as of event times."""
    specs = (compiled.spec for compiled in program.operators.values())
    return {spec.table.table_id for spec in specs if isinstance(spec, TableJoinSpec) and spec.as_of is not None}


def tables_in_memory(program: StageProgram) -> set[str]:
    """Return the ids of the tables that no host keeps: tasks read what they lack of the side inputs."""
    ordered = {table_id for table_id, table in program.spec.tables.items() if table.sequence_by is not None}
    return as_of_tables(program) | ordered


def side_partitions(program: StageProgram, stream_id: str, task: int) -> Sequence[int]:
    """The partitions of a side input that feed the tables of a task: that of its number.

    Every task reads all of a broadcast.
    """
    planned = program.plan.stream(stream_id)
    if planned.broadcast:
        return range(max(planned.partitions, 1))
    return [task] if task < planned.partitions else []


def empty_store(program: StageProgram, table_id: str, kind: type[Store] = TableStore) -> Store:  # type: ignore[assignment]
    """An empty table."""
    schema = program.tables.get(table_id)
    if schema is None:
        raise InvalidApplication(
            f"The columns of table {table_id!r} are not known.",
            hint=f'Declare them: schema= of table "{table_id}".',
            table=table_id,
        )
    table = program.spec.table(table_id)
    users = [o.spec for o in program.operators.values() if any(used.table_id == table_id for used in o.spec.tables)]
    timed = all(isinstance(user, TableUserSpec) and user.time_column is not None for user in users)
    return kind(table_id, schema, table.key, table.ttl_ms, by_event_time=timed)


@dataclass
class Filled:
    """The figures of what a task has read into its tables from side inputs, for its report."""

    inputs: dict[str, InputReport] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    bad_samples: list[str] = field(default_factory=list)


class TaskTables:
    """The tables of one section.

    ``stores`` are the tables by id: those given (which side inputs fill), and new ones for the rest.
    """

    def __init__(self, program: StageProgram, section: int, stores: dict[str, TableStore]) -> None:
        self._program = program
        self._ids = section_tables(program, section)
        self._ignored: dict[str, int] = {}
        self.stores = stores
        for table_id in self._ids:
            if table_id not in self.stores:
                self.stores[table_id] = empty_store(program, table_id)

    def report_filled(self, filled: Filled, report: TaskReport) -> None:
        """Add what was read of side inputs to the report."""
        report.side_inputs.update(filled.inputs)
        report.metrics = added(report.metrics, filled.metrics)
        report.gauges.update(filled.gauges)
        report.bad_samples += filled.bad_samples
        self._ignored = filled.ignored

    def snapshot(self, *, ended: bool = False) -> dict[str, Mapping[str, pa.Table]]:
        """Return the rows of tables that the application writes, by ``table:<id>``.

        Those of side inputs are filled anew. When the task has ``ended``, the state is for the next run alone: nothing
        is left of what is declared with ``changelog=False``.
        """
        state: dict[str, Mapping[str, pa.Table]] = {}
        for table_id in self._ids:
            declared = self._program.spec.table(table_id)
            lost = ended and dict(declared.options).get("changelog") == "false"
            tables = self.stores[table_id].snapshot() if not declared.side_inputs and not lost else {}
            if tables:
                state[f"table:{table_id}"] = tables
        return state

    def restore(self, state: Mapping[str, Mapping[str, pa.Table]]) -> None:
        """Takes over what :meth:`snapshot` gave."""
        for table_id in self._ids:
            tables = state.get(f"table:{table_id}")
            if tables:
                with fitting_state(f"the table {table_id!r}"):
                    self.stores[table_id].restore(tables)

    def reports(self, *, filled: bool) -> dict[str, TableReport]:
        """Rows and bytes of the tables that are looked up, and of all when side inputs ``filled`` any."""
        joined = {c.spec.table.table_id for c in self._program.operators.values() if isinstance(c.spec, TableJoinSpec)}
        return {
            table_id: TableReport(
                store.count, store.nbytes, self._ignored.get(table_id, 0) if self._is_fed(table_id) else store.ignored
            )
            for table_id, store in self.stores.items()
            if filled or table_id in joined
        }

    def _is_fed(self, table_id: str) -> bool:
        return bool(self._program.spec.table(table_id).side_inputs)
