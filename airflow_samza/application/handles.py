"""The results of declaring calls: output streams, side inputs and tables, which are passed to operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from airflow_samza.application.descriptors import StreamDescriptor, TableDescriptor
from airflow_samza.application.graph_builder import GraphBuilder

P = TypeVar("P")


@dataclass(frozen=True, eq=False)
class OutputStream:
    """An output stream of one application; :meth:`MessageStream.send_to` takes it."""

    descriptor: StreamDescriptor
    _graph: GraphBuilder

    def __repr__(self) -> str:
        return f"OutputStream({self.descriptor.stream_id!r})"


@dataclass(frozen=True, eq=False)
class SideInput:
    """A stream that feeds tables and is never processed itself; the table form with ``side_inputs=`` takes it."""

    descriptor: StreamDescriptor
    _graph: GraphBuilder

    def __repr__(self) -> str:
        return f"SideInput({self.descriptor.stream_id!r})"


@dataclass(frozen=True, eq=False)
class Table(Generic[P]):
    """A table of one application, of rows ``P``; joins take it, and :meth:`MessageStream.send_to` a writable one."""

    descriptor: TableDescriptor
    _graph: GraphBuilder

    def __repr__(self) -> str:
        return f"Table({self.descriptor.table_id!r})"
