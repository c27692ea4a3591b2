"""Checks of a publication against the commits that a table has on record: who may not commit to it (any more).

Publishers and branches of both lake formats ask it.
"""

from __future__ import annotations

from collections.abc import Collection

from airflow_samza.errors import TopicError
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.output_slots import (
    OutputSlot,
    is_of_other_root,
    namesake,
    outdated,
    replaced,
)
from airflow_samza.systems.tables.commits import Committed, TableView, run_digest, slot_key


def reject_namesake(view: TableView, mine: Committed, table: str, prefixes: Collection[str] | None = None) -> None:
    """Reject a run of which the table has what one of the same name has committed, under another root.

    A former version has noted no root, which the names of files of a generation depend on: those of ``mine`` begin with
    ``prefixes``, where its files are known.
    """
    for _, one in view.commits():
        unnoted = not (mine.root and one.root) and one.owner == mine.owner and one.prefixes
        is_unlike = unnoted and prefixes is not None and not set(prefixes) <= set(one.prefixes)
        if one.owner[0] == mine.owner[0] and (is_of_other_root(mine.root, one.root) or is_unlike):
            raise namesake(
                output=f"the table {table}",
                stream=mine.stream,
                producer=one.producer,
                generation=one.generation,
                root=one.root,
                table=table,
            )


def reject_late(view: TableView, mine: Committed, slot: OutputSlot | None, table: str) -> None:
    """Reject a generation that a higher one, or another run of its slot, has replaced."""
    newest = view.owners.newest.get(mine.owner[0])
    if newest is not None and newest > parse_generation(mine.generation):
        raise outdated(
            output=f"the table {table}",
            stream=mine.stream,
            producer=mine.producer,
            generation=mine.generation,
            newest=".".join(map(str, newest)),
            table=table,
        )
    if slot is None:
        return
    key = slot_key(slot, mine.producer, mine.stream)
    winner = view.owners.winner(key, run_digest(mine.producer), *mine.owner)
    if winner is not None:
        raise replaced(
            slot,
            output=f"the table {table}",
            stream=mine.stream,
            producer=mine.producer,
            generation=mine.generation,
            winner=view.by_owner[winner.owner].producer,
        )


def dropped(table: str, branch: str, stream: str) -> TopicError:
    """Return the error of a branch that lacks what its run has committed."""
    return TopicError(
        f"The branch {branch!r} of the table {table} was dropped after the output {stream!r} was committed to "
        "it: what would be published is not all of it.",
        hint="Clear the stage that writes it: it then begins the branch anew.",
        table=table,
        stream=stream,
        branch=branch,
    )
