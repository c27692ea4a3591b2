"""The meaning of the state of an operator, table, store or input, as it is kept with each version of state.

State is found again by an id. That alone does not make it fit: partial sums are no maxima, and windows of an hour are
none of a day. So a version holds, beside the state, which functions, keys, columns and lengths of windows made it; of
an input, which messages a run reads, and of which place (decision 14). The compiler of a stage makes it, and the plan
step compares it with that of a version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

STORE = " store "
"""Between the id of a low-level task and the name of its store, in the key of the store's meaning.

No id holds a space.
"""

STORE_TABLE = "store-"
"""The beginning of the names under which a task's state holds the tables of a store."""

TABLE = "table:"
"""The beginning of the key of a local table's state and meaning."""

INPUT = "input:"
"""The beginning of the key of the meaning of how far an input was read."""

READ, PLACE, AT = "read", "place", "at"
"""Facets of an input: what of it a run reads, its place, and a digest of that which all names of a place share."""

ARRIVALS = "what came since the run before"
SECTIONS = "the sections of its writers"
INTERVAL = "the messages of the data interval"
WHOLE = "all of it in every run"
"""The messages of an input that a run reads."""

POSITIONS = frozenset({ARRIVALS, SECTIONS})
"""Those that depend on what the runs before have read."""


@dataclass(frozen=True)
class StateMeaning:
    """The meaning of the state of one operator, table, store or input.

    ``title`` names it in a sentence, ``name`` is what a user writes in ``renamed_from=`` and ``dropped=``. ``facets``
    must be equal to go on from the state (``"functions": "total=sum(v bigint)"``). ``columns`` are messages that are
    kept, type by column and side: the state of more columns may be gone on from, as what is not used any more is left
    out.
    """

    title: str
    name: str
    facets: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def changes(self, former: StateMeaning) -> Iterator[str]:
        """Yield, as half sentences, in what this meaning cannot go on from the state of ``former``.

        A facet that either lacks fits.
        """
        moved = self.facets.get(AT) != former.facets.get(AT)
        for facet in self.facets.keys() & former.facets.keys():
            if self.facets[facet] != former.facets[facet] and facet != AT and (facet != PLACE or moved):
                yield f"{facet} {former.facets[facet]}, now {self.facets[facet]}"
        for side in self.columns.keys() & former.columns.keys():
            kept = former.columns[side]
            for column, kind in self.columns[side].items():
                if column not in kept:
                    yield f"no column {column!r} of its {side}"
                elif kept[column] != kind:
                    yield f"{side} with {column} {kept[column]}, now {kind}"
