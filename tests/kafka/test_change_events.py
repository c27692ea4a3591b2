"""Changes of a database in topics of Kafka, with the messages without a value that follow deletes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.kafka_side_inputs import Profiles, key_of
from tests.support.kafka_topics import Sent, Topics

pytestmark = pytest.mark.kafka

FIRST = [("c", 1, "gold", 1), ("c", 2, "gold", 2), ("d", 1, "gold", 5), (None, 1, None, 0)]
SECOND = [("u", 1, "late", 4), ("u", 2, "silver", 7), ("u", 2, "late", 6), ("c", 3, "new", 8)]


@pytest.fixture
def profiles(tmp_path: Path, topics: Topics) -> Profiles:
    return Profiles(tmp_path / "root", topics)


def sent(application: str, op: str | None, id: int, tier: str | None, lsn: int) -> Sent:
    """Return an event, or a message without a value."""
    row: dict[str, Any] = {"id": id, "tier": tier}
    event = {"op": op, **row, "lsn": lsn}
    if application == "of_debezium":
        sides = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
        event = {**sides, "op": op, "source": {"connector": "postgresql", "lsn": lsn}, "ts_ms": 1}
    return Sent(None if op is None else json.dumps(event), key_of(id), partition=id % 2)


@pytest.mark.parametrize("application", ["of_debezium", "of_columns"])
def test_changes_are_a_stream_and_a_table_in_their_order(profiles: Profiles, application: str) -> None:
    changes = FIRST if application == "of_debezium" else FIRST[:-1]
    for found in (changes, SECOND):
        profiles.topics.send(profiles.changes, [sent(application, *one) for one in found])
        profiles.view([1, 2, 3])
        profiles.whole(application)
    applied = sorted((row["id"], row["lsn"], row["_deleted"]) for row in profiles.here.rows("applied"))
    assert applied == [(1, 1, False), (1, 5, True), (2, 2, False), (2, 7, False), (3, 8, False)]
    assert profiles.tiers() == {1: None, 2: "silver", 3: "new"}
