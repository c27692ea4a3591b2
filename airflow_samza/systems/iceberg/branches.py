"""Branches to which runs commit until somebody publishes them: write, audit, publish.

The records of commits to a branch wait beside those of the table, in one property of the branch: until it is published,
nothing that readers of ``main`` see has changed, and no other run notices it. The property also names the run and the
snapshot of ``main`` with which the branch began. Publishing is one commit: ``main`` takes the branch's snapshot, the
records become those of the table, and the branch goes. It is asserted that ``main`` is where the branch began, and that
all is there which the run has committed: a branch that was dropped meanwhile has a part of it, or nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from airflow_samza.errors import TopicError
from airflow_samza.systems.capabilities import OutputCommit
from airflow_samza.systems.iceberg.transactions import transaction_of
from airflow_samza.systems.tables.commits import Committed, TableView, damages, dropped, output_digest
from airflow_samza.systems.tables.options import MAIN

if TYPE_CHECKING:
    from pyiceberg.table import Table

AUDITED = "samza.audit."
"""Beginning of the names of the properties of branches."""


class BranchMade(Exception):
    """A branch was begun, or begun anew: the table is to be loaded again."""


@dataclass(frozen=True)
class Branch:
    """Branch of a run, from the snapshot ``base`` of ``main``: ``records`` are those that are to be published."""

    run: str
    base: str
    records: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, name: str) -> Branch | None:
        """Return what a table has on record of a branch; None: no run has begun it."""
        text = table.properties.get(f"{AUDITED}{name}")
        if text is None:
            return None
        with damages(_name(table), f"{AUDITED}{name}"):
            facts = json.loads(text)
            records = {str(key): str(value) for key, value in dict(facts["records"]).items()}
            return cls(str(facts["run"]), str(facts["base"]), records)

    @property
    def text(self) -> str:
        """The property's value."""
        return json.dumps(asdict(self), separators=(",", ":"))


def properties_of(table: Table, branch: str) -> dict[str, str]:
    """Return the properties of a table as they are on a branch; where somebody has dropped it, as they are on main."""
    waiting = Branch.of(table, branch) if branch in table.metadata.refs and branch != MAIN else None
    return {**table.properties, **(waiting.records if waiting is not None else {})}


def reject_foreign(table: Table, branch: str, run: str, stream: str) -> None:
    """Reject a branch that exists, and is not of this run (``<application>/<run>``)."""
    waiting = Branch.of(table, branch)
    if branch == MAIN or (branch not in table.metadata.refs if waiting is None else waiting.run == run):
        return
    whose, drop = "is not of a run", "drop its branch"
    if waiting is not None:
        whose = f"the run {waiting.run!r} has begun"
        drop = f"give it up: airflow-samza publish {waiting.run.replace('/', ' ', 1)} --drop"
    raise TopicError(
        f"The table {_name(table)} of the output {stream!r} has the branch {branch!r} already, which {whose}.",
        hint=f'Name the branch after the run: branch="audit/{{run_id}}"; or publish the other run, or {drop}.',
        table=_name(table),
        stream=stream,
        branch=branch,
    )


def begin_branch(table: Table, name: str, run: str, mine: Committed) -> None:
    """Begin the branch of a run, or begin it anew from what ``main`` is now; then raise :class:`BranchMade`.

    Anew: where nothing is on it but what the generation of ``mine`` replaces, and ``main`` has gone on since.
    """
    from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate, SetSnapshotRefUpdate

    main, ref, waiting = table.metadata.current_snapshot_id, table.metadata.refs.get(name), Branch.of(table, name)
    if ref is not None and waiting is not None and not (str(main) != waiting.base and _only_former(table, name, mine)):
        return
    if main is None:
        with transaction_of(table) as transaction, transaction.update_snapshot().fast_append():
            pass  # a branch begins with a snapshot
        raise BranchMade
    begun = Branch(run, str(main))
    known = {"ref": name, "snapshot-id": None if ref is None else ref.snapshot_id}
    table._do_commit(
        (
            SetSnapshotRefUpdate.model_validate({"ref-name": name, "type": "branch", "snapshot-id": main}),
            SetPropertiesUpdate(updates={f"{AUDITED}{name}": begun.text}),
        ),
        (
            AssertRefSnapshotId.model_validate(known),
            AssertRefSnapshotId.model_validate({"ref": MAIN, "snapshot-id": main}),
        ),
    )
    raise BranchMade


def _only_former(table: Table, branch: str, mine: Committed) -> bool:
    """Return whether a branch has nothing but lower generations of an output."""
    published = {(slot.key, one) for slot, one in TableView.of(_name(table), table.properties).commits()}
    committed = TableView.of(_name(table), properties_of(table, branch)).commits()
    waiting = [one for slot, one in committed if (slot.key, one) not in published and one.files]
    return all(one.owner[0] == mine.owner[0] and one.owner != mine.owner for one in waiting)


def fast_forward(
    table: Table, name: str, run: str, stream: str, committed: Collection[OutputCommit] = ()
) -> str | None:
    """Publish the branch of a run: ``main`` becomes its snapshot, whose id is returned; None: there is nothing to do.

    A ``main`` that has gone on since the branch began, and a branch without what was ``committed``, are a
    ``TopicError``.
    """
    from pyiceberg.table.update import (
        AssertRefSnapshotId,
        AssertTableUUID,
        RemovePropertiesUpdate,
        RemoveSnapshotRefUpdate,
        SetPropertiesUpdate,
        SetSnapshotRefUpdate,
    )

    reject_foreign(table, name, run, stream)
    owners = {one.owner for _, one in TableView.of(_name(table), properties_of(table, name)).commits()}
    for one in committed:
        if (output_digest(one.producer, one.stream), one.generation) not in owners:
            raise dropped(_name(table), name, one.stream)
    waiting, ref = Branch.of(table, name), table.metadata.refs.get(name)
    if waiting is None or ref is None:
        return None
    main = table.metadata.current_snapshot_id
    if str(main) != waiting.base:
        raise TopicError(
            f"The branch {name!r} of the table {_name(table)} cannot be published: others have committed to it since "
            f"the branch began, with the snapshot {waiting.base}.",
            hint="Clear the stage that writes it: it then begins the branch anew from what the table is now.",
            table=_name(table),
            stream=stream,
            branch=name,
        )
    table._do_commit(
        (
            SetSnapshotRefUpdate.model_validate({"ref-name": MAIN, "type": "branch", "snapshot-id": ref.snapshot_id}),
            RemoveSnapshotRefUpdate.model_validate({"ref-name": name}),
            SetPropertiesUpdate(updates=dict(waiting.records)),
            RemovePropertiesUpdate(removals=[f"{AUDITED}{name}"]),
        ),
        (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId.model_validate({"ref": MAIN, "snapshot-id": main}),
            AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": ref.snapshot_id}),
        ),
    )
    return str(ref.snapshot_id)


def published_snapshot(table: Table, committed: Collection[OutputCommit]) -> str | None:
    """Return the snapshot with the last of what was committed to a branch that is published; None: it is not."""
    ages = {str(one.snapshot_id): one.sequence_number or 0 for one in table.metadata.snapshots}
    return TableView.of(_name(table), table.properties).published(committed, lambda one: ages.get(one, 0))


def drop_branch(table: Table, name: str, run: str, stream: str, tried: list[Branch]) -> bool:
    """Drop the branch of a run, and its records; return False where there is none, or it is published meanwhile.

    ``tried`` are the states from which it was tried before, without an answer; this one joins them.
    """
    from pyiceberg.table.update import AssertRefSnapshotId, RemovePropertiesUpdate, RemoveSnapshotRefUpdate

    reject_foreign(table, name, run, stream)
    waiting, ref = Branch.of(table, name), table.metadata.refs.get(name)
    if waiting is None or waiting.run != run:
        return bool(tried) and not _is_published(table, tried[-1])
    tried.append(waiting)
    removal = () if ref is None else (RemoveSnapshotRefUpdate.model_validate({"ref-name": name}),)
    known = {"ref": name, "snapshot-id": None if ref is None else ref.snapshot_id}
    table._do_commit(
        (*removal, RemovePropertiesUpdate(removals=[f"{AUDITED}{name}"])),
        (AssertRefSnapshotId.model_validate(known),),
    )
    return True


def _is_published(table: Table, branch: Branch) -> bool:
    """Return whether a table has on record what a branch had, which is gone."""
    recorded, its = (
        {(one.owner, one.epoch) for _, one in TableView.of(_name(table), records).commits()}
        for records in (table.properties, branch.records)
    )
    return its <= recorded


def _name(table: Table) -> str:
    return ".".join(table.name())
