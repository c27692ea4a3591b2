"""The columns of inputs of which a column is made, and how: values of column lineage, and their algebra.

Kinds of operators say it, and lineage of tasks and pushes follows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from airflow_samza.schema import Schema

IDENTITY, TRANSFORMATION, AGGREGATION = "IDENTITY", "TRANSFORMATION", "AGGREGATION"
"""Ways in which a value comes from another, from the plainest on; OpenLineage calls these direct."""

CONDITIONAL, FILTER, JOIN, GROUP_BY, WINDOW = "CONDITIONAL", "FILTER", "JOIN", "GROUP_BY", "WINDOW"
"""Ways in which a value decides about another, or about which rows there are; OpenLineage calls these indirect."""

_DIRECT = (IDENTITY, TRANSFORMATION, AGGREGATION)


class ColumnSource(NamedTuple):
    """A column of a stream of which another is made.

    ``how`` is one of the words of this module. ``opaque``: user code stands between, so the column may play no part.
    """

    stream: str
    column: str
    how: str = IDENTITY
    opaque: bool = False

    @property
    def is_direct(self) -> bool:
        """Return whether the value itself comes from the column."""
        return self.how in _DIRECT

    def then(self, how: str, opaque: bool = False) -> ColumnSource:
        """Return the source of what is made of this column's result in the way ``how``."""
        if how not in _DIRECT:
            last = how
        elif self.is_direct:
            last = max(self.how, how, key=_DIRECT.index)
        else:
            last = self.how
        return ColumnSource(self.stream, self.column, last, self.opaque or opaque)


Sources = frozenset[ColumnSource]

NOTHING: Sources = frozenset()


def then(sources: Iterable[ColumnSource], how: str, opaque: bool = False) -> Sources:
    """Return the sources of what is made of a column with these ``sources``."""
    return frozenset(source.then(how, opaque) for source in sources)


@dataclass(frozen=True)
class Flow:
    """The messages that an operator emits.

    ``columns`` are the sources of each column, by its name in lower case, ``rest`` those of columns that are not known
    before the stage runs, and ``rows`` the columns that decide which messages there are. ``reads`` are the streams that
    the messages come from, whether or not a column of theirs is used.
    """

    columns: Mapping[str, Sources] = field(default_factory=dict)
    rows: Sources = NOTHING
    rest: Sources = NOTHING
    reads: frozenset[str] = frozenset()

    def of(self, name: str | None) -> Sources:
        """Return the sources of a column; None has none."""
        return NOTHING if name is None else self.columns.get(name.lower(), self.rest)

    def of_all(self, names: Iterable[str | None]) -> Sources:
        """Return the sources of several columns."""
        return NOTHING.union(*(self.of(name) for name in names))

    @property
    def whole(self) -> Sources:
        """The sources of all columns."""
        return self.rest.union(*self.columns.values())

    def chosen(self, *more: Sources) -> Flow:
        """Return the same columns of rows about which ``more`` decide, too."""
        return replace(self, rows=self.rows.union(*more))

    def with_(self, other: Flow) -> Flow:
        """Return the flow of the messages of both, column by column."""
        names = {*self.columns, *other.columns}
        columns = {name: self.of(name) | other.of(name) for name in names}
        return Flow(columns, self.rows | other.rows, self.rest | other.rest, self.reads | other.reads)


def called(read: Flow, schema: Schema | None) -> Flow:
    """Return what user code makes of messages: everything of everything."""
    results = then(read.whole, TRANSFORMATION, True)
    rows = read.rows | then(read.whole, FILTER, True)
    return Flow(rest=results, rows=rows) if schema is None else Flow({n.lower(): results for n in schema.names}, rows)


def of_stream(stream_id: str, schema: Schema | None) -> Flow:
    """Return the flow of a stream as it lies: each column is made of itself."""
    names = schema.names if schema is not None else ()
    columns = {name.lower(): frozenset([ColumnSource(stream_id, name)]) for name in names}
    return Flow(columns, reads=frozenset([stream_id]))


@dataclass(frozen=True)
class StreamLineage:
    """The origin of what a stage, or a whole run, writes to a stream.

    ``columns`` has the stream's columns in their order, as far as they are known before the stage runs; ``rows`` are
    the columns that decide which rows there are, ``rest`` the sources of columns that are not known. ``reads`` are the
    streams that the rows come from, ``schema`` has the types of the columns.
    """

    columns: Mapping[str, Sources]
    rows: Sources = NOTHING
    rest: Sources = NOTHING
    reads: frozenset[str] = frozenset()
    schema: Schema | None = None

    @property
    def flow(self) -> Flow:
        """The same as what a reader of the stream gets."""
        columns = {name.lower(): sources for name, sources in self.columns.items()}
        return Flow(columns, self.rows, self.rest, self.reads)

    def with_(self, other: StreamLineage) -> StreamLineage:
        """Return the lineage of what both write."""
        both = self.flow.with_(other.flow)
        names = dict.fromkeys([*self.columns, *other.columns])
        columns = {name: both.of(name) for name in names}
        return StreamLineage(columns, both.rows, both.rest, both.reads, self.schema or other.schema)


def lineage_through(stages: Mapping[str, Mapping[str, StreamLineage]]) -> dict[str, StreamLineage]:
    """Return the lineage of all written streams in columns of streams that no stage writes.

    Streams between stages are followed back; what is written and read in a circle, until nothing is added.
    """
    written: dict[str, StreamLineage] = {}
    for streams in stages.values():
        for stream_id, lineage in streams.items():
            written[stream_id] = written[stream_id].with_(lineage) if stream_id in written else lineage
    flows = {stream_id: lineage.flow for stream_id, lineage in written.items()}
    ends = {stream_id: Flow() for stream_id in flows}
    changed = True
    while changed:
        changed = False
        for stream_id, flow in flows.items():
            columns = {name: _followed(sources, ends) for name, sources in flow.columns.items()}
            between = [ends[stream] for stream in flow.reads if stream in ends]
            rows = _followed(flow.rows, ends).union(*(end.rows for end in between))
            reads = (flow.reads - ends.keys()).union(*(end.reads for end in between))
            new = Flow(columns, rows, _followed(flow.rest, ends), reads)
            if new != ends[stream_id]:
                ends[stream_id], changed = new, True
    return {
        stream_id: StreamLineage(
            {name: ends[stream_id].columns[name.lower()] for name in lineage.columns},
            ends[stream_id].rows,
            ends[stream_id].rest,
            ends[stream_id].reads,
            lineage.schema,
        )
        for stream_id, lineage in written.items()
    }


def _followed(sources: Sources, ends: Mapping[str, Flow]) -> Sources:
    return NOTHING.union(
        *(
            then(ends[source.stream].of(source.column), source.how, source.opaque)
            if source.stream in ends
            else (source,)
            for source in sources
        )
    )
