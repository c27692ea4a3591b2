"""Records of the commits to a table, as actions ``txn`` of its log: atomic with the files that a commit adds.

For a generation of an output, ``samza.epoch <facts>`` has the last epoch as its version: the facts, as JSON, name the
producer, its slot (rule O1) and its turn. An epoch with further beginnings of names, or partitions, has another record,
and all count. ``samza.files <id>``, ``samza.rows <id>`` and ``samza.version <id>`` are numbers of it. Checkpoints keep
them; without a time they never expire.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from airflow_samza.errors import SamzaError
from airflow_samza.records import plain
from airflow_samza.systems.delta.state import TableState
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.tables.commits import Committed, Slot, TableView, slot_key
from airflow_samza.typed_values import converted

_EPOCH, _FILES, _ROWS, _VERSION = "samza.epoch", "samza.files", "samza.rows", "samza.version"


def view_of(state: TableState) -> TableView:
    """Return the records that a table's log has; a damaged one is a ``TopicError``."""
    slots: dict[str, Slot] = {}
    for name, epoch in state.transactions.items():
        if name.startswith(f"{_EPOCH} "):
            try:
                slot, committed, number = _decoded(name)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SamzaError) as error:
                raise state.log.damaged(f"the record {name} cannot be read") from error
            files, rows, version = (state.transactions.get(f"{kind} {number}", 0) for kind in (_FILES, _ROWS, _VERSION))
            committed = dataclasses.replace(committed, epoch=epoch, files=files, rows=rows, snapshot=str(version))
            former = slots.get(slot.key, slot)
            own = next((one for one in former.commits if one.owner == committed.owner), None)
            if own is not None:  # epochs without files have left no beginning of names, former versions no root
                committed = dataclasses.replace(
                    committed,
                    prefixes=tuple(sorted({*own.prefixes, *committed.prefixes})),
                    epoch=max(own.epoch, epoch),
                    root=committed.root or own.root,
                    partitions=tuple(sorted({*own.partitions, *committed.partitions})),
                )
            slots[slot.key] = former.with_commit(committed)
    return TableView(slots)


def record_actions(
    slot: Slot, committed: Committed, others: Iterable[tuple[Slot, Committed]]
) -> Iterator[dict[str, Any]]:
    """Yield the actions that keep the record of a commit, and of files of others that go with it."""
    facts: dict[str, Any] = {
        "producer": committed.producer,
        "stream": committed.stream,
        "generation": committed.generation,
        "turn": committed.turn,
        "prefixes": committed.prefixes,
        **({"root": committed.root} if committed.root else {}),
        **({"partitions": committed.partitions} if committed.partitions else {}),
    }
    if slot.slot is not None:
        facts["slot"] = plain(slot.slot)
    yield _action(f"{_EPOCH} {json.dumps(facts, separators=(',', ':'), sort_keys=True)}", committed.epoch)
    yield _action(f"{_VERSION} {_id(slot.key, committed)}", int(committed.snapshot))
    for its_slot, one in ((slot, committed), *others):
        yield files_action(its_slot, one)
        yield _action(f"{_ROWS} {_id(its_slot.key, one)}", one.rows)


def files_action(slot: Slot, committed: Committed) -> dict[str, Any]:
    """Return the action that keeps how many live files a generation has."""
    return _action(f"{_FILES} {_id(slot.key, committed)}", committed.files)


def _action(name: str, version: int) -> dict[str, Any]:
    return {"txn": {"appId": name, "version": version}}


def _id(key: str, committed: Committed) -> str:
    text = "\0".join((key, committed.producer, committed.stream, committed.generation))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@lru_cache(maxsize=1 << 12)
def _decoded(name: str) -> tuple[Slot, Committed, str]:
    """Return the slot of a record, what never changes of it, and its id: each state of a log has the same again."""
    facts = json.loads(name.removeprefix(f"{_EPOCH} "))
    slot = converted(facts.pop("slot"), OutputSlot) if "slot" in facts else None
    parse_generation(facts["generation"])
    committed = converted({**facts, "epoch": 0}, Committed)
    key = slot_key(slot, committed.producer, committed.stream)
    return Slot(key, slot), committed, _id(key, committed)
