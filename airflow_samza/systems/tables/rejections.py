"""Errors of commits to tables."""

from __future__ import annotations

from airflow_samza.errors import TopicError
from airflow_samza.systems.tables.commits import Committed
from airflow_samza.systems.tables.output_options import REPLACE_PARTITIONS


def compacted(table: str, stream: str, former: Committed, left: int, mode: str) -> TopicError:
    """Return the error of an output that is to replace what a former commit wrote, of whose files some are gone."""
    cleared = "Delete by hand the partitions that it does not write any more, and clear it; or d"
    return TopicError(
        f"The output {stream!r} replaces what generation {former.generation} of {former.producer} has "
        f"written to the table {table}, and of its {former.files} data files {left} are left: they "
        "were compacted, or rows of them deleted, since.",
        hint=f"{cleared if mode == REPLACE_PARTITIONS else 'D'}elete its rows from the table by hand, and run it again "
        "with another run_id and mode=append. A column that names the run (run_column=) prevents it.",
        table=table,
        stream=stream,
        generation=former.generation,
    )


def repartitioned(table: str, stream: str) -> TopicError:
    """Return the error of an output that replaces partitions which those of some data files do not tell."""
    return TopicError(
        f"The output {stream!r} replaces partitions of the table {table}, and some of its data files were written by "
        "a former partition spec, which does not tell the partitions of today.",
        hint="Have these files written anew by the present spec (rewrite_data_files), or declare mode=replace, which "
        "replaces rows of the application only.",
        table=table,
        stream=stream,
    )


def rewritten_by_others(table: str, stream: str, own: Committed, left: int) -> TopicError:
    """Return the error of an output that replaces partitions in which files of others hold rows of its own run."""
    return TopicError(
        f"The output {stream!r} replaces partitions of the table {table}, and of the {own.files} data files that "
        f"generation {own.generation} of {own.producer} has written there {left} are left: they were compacted, or "
        "rows of them deleted, while the run was at work, and its own rows would go.",
        hint="Clear the stage: what it writes anew replaces the partitions whole. Compact them when no run is at work.",
        table=table,
        stream=stream,
        generation=own.generation,
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
