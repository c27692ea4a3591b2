"""The members of a shop, taken over from its database: as they are now, and as they were at any time.

Files bring the changes in the envelope of Debezium, in any order and repeatedly. Both results are tables of Delta: a
slowly changing dimension of type 1, and one of type 2.
"""

from __future__ import annotations

from typing import Any

from airflow_samza import debezium, stream_application

MEMBER = "member_id bigint, name string, tier string, lsn bigint, at timestamp"


@stream_application("members-from-changes")
def members_from_changes(app: Any) -> None:
    """Upsert what has changed since the run before into the members, and into their history."""
    changes = app.input_stream(
        "member-changes",
        system="data",
        path="member-changes/*.json",
        format="json",
        schema=MEMBER,
        changes=debezium(columns={"lsn": "source.lsn", "at": "source.ts_ms"}),
        slice="checkpoint",
    )
    by_member = changes.partition_by("member_id", id="by-member")
    table = {"system": "mart", "create": True, "mode": "upsert"}

    now = by_member.apply_changes("member_id", sequence_by="lsn", id="now")
    now.send_to(app.output_stream("members", table="shop.members", key="member_id", **table))

    history = by_member.apply_changes("member_id", sequence_by=["at", "lsn"], stored_as_scd_type=2, id="history")
    history.send_to(app.output_stream("history", table="shop.history", key=["member_id", "valid_from"], **table))
