"""Tags that keep the snapshots from expiry up to which inputs were read: the next run begins there.

A reader has three of them: that of its newest plan or end, and the two before, from which a run that is cleared begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_samza.systems.output_slots import digest

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate

KEPT = 3
"""Tags of a reader."""


def hold_snapshot(table: Table, reader: str, version: str) -> None:
    """Tag a snapshot for a reader, and drop its oldest tags; nothing is committed where the tag is there."""
    from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

    mine = f"samza-{digest(reader)}-"
    tag = f"{mine}{version}"
    if tag in table.metadata.refs or table.metadata.snapshot_by_id(int(version)) is None:
        return
    order = {one.snapshot_id: one.sequence_number or 0 for one in table.metadata.snapshots}
    tags = [(order.get(ref.snapshot_id, 0), name) for name, ref in table.metadata.refs.items() if name.startswith(mine)]
    updates: list[TableUpdate] = [
        SetSnapshotRefUpdate.model_validate({"ref-name": tag, "type": "tag", "snapshot-id": int(version)})
    ]
    for _, name in sorted(tags)[: len(tags) - KEPT + 1] if len(tags) >= KEPT else ():
        updates.append(RemoveSnapshotRefUpdate.model_validate({"ref-name": name}))
    table._do_commit(tuple(updates), (AssertRefSnapshotId.model_validate({"ref": tag, "snapshot-id": None}),))
