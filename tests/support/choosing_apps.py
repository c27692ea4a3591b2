"""Applications that show the order in which their inputs are read, for tests."""

from __future__ import annotations

from typing import Any

from airflow_samza import StreamTask, task_application


class _Order(StreamTask):
    """Sends where each message came from."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        collector.send("order", {"stream": envelope.stream})


def _described(app: Any) -> None:
    for stream in "ab":
        app.input_stream(stream, schema="id bigint", partitions=1)
    app.output_stream("order", schema="stream string", partitions=1)
    app.task(_Order)


ordering = task_application("ordering")(_described)
