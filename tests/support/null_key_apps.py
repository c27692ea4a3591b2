"""An application with a ``partition_by`` and two joins over lines of JSON, for tests of keys that are null."""

from __future__ import annotations

from typing import Any

from airflow_samza import stream_application

REFUNDED = "tests.support.null_key_apps:refunded"


@stream_application("refunded")
def refunded(app: Any) -> None:
    """Join orders with refunds, and look their members up."""

    def lines(name: str, schema: str, key: str) -> Any:
        read = app.input_stream(name, system="lake", schema=schema, path=f"{name}.json", format="json", partitions=2)
        return read.partition_by(key, id=f"{name}-by-key")

    members = app.local_table("names", key="member", schema="member string, name string")
    lines("members", "member string, name string", "member").send_to(members)
    orders = lines("orders", "order_id bigint, member string", "order_id")
    refunds = lines("refunds", "order_id bigint, amount int", "order_id")
    joined = orders.join(refunds, key="order_id", ttl="1 day", how="left", id="with-refunds")
    named = joined.partition_by("member", id="of-members").join(members, key="member", how="left", id="with-names")
    named.send_to(app.output_stream("copies", system="log", partitions=1))
