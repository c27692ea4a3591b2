"""Applications that check rows on their way into tables of lakes, and keep them back, for tests on Spark."""

from __future__ import annotations

from typing import Any

from airflow_samza import condition, not_null, rows, stream_application, unique


def _checked(app: Any, system: str) -> None:
    read = app.input_stream(
        "rows",
        system="lake",
        schema="n bigint, word string",
        path="in/{ds}.jsonl",
        partitions=2,
        expect=[condition("n >= 0", on_error="drop"), not_null("word")],
    )
    read.send_to(
        app.output_stream(
            "out",
            system=system,
            table="web.out",
            create=True,
            publish="after approval",
            expect=[unique("n"), "n < 100", rows(at_least=1)],
        )
    )


@stream_application("checked-tables")
def checked_tables(app: Any) -> None:
    """Write a table of a catalog."""
    _checked(app, "tables")


@stream_application("checked-deltas")
def checked_deltas(app: Any) -> None:
    """Write a table in a folder."""
    _checked(app, "deltas")
