"""An application that keeps the newest row of each key in a table, day by day."""

from typing import Any

from airflow_samza import stream_application

ROW = "id bigint, told string"


@stream_application("newest-rows")
def newest_rows(app: Any) -> None:
    """Upsert the rows of a day."""
    rows = app.input_stream(
        "rows",
        system="data",
        schema=ROW,
        path="newest/{data_interval_start:%Y-%m-%d}.json",
        format="json",
        partitions=1,
    )
    rows.send_to(app.output_stream("newest", system="mart", table="newest.rows", create=True, mode="upsert", key="id"))
