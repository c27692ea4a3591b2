"""Applications that read files that keep coming, for tests; a test puts the input's options into ``OPTIONS``."""

from __future__ import annotations

from typing import Any

from airflow_samza import RequestScope, StreamTask, stream_application, task_application

VIEW = "member bigint, n bigint"

OPTIONS: dict[str, object] = {}


def views(app: Any, partitions: int) -> Any:
    """Declare the input."""
    return app.input_stream(
        "views",
        system="lake",
        schema=VIEW,
        path="in/**",
        format="json",
        partitions=partitions,
        slice="checkpoint",
        options=OPTIONS,
    )


class _Numbering(StreamTask):
    """Says of every view which of its member's it is."""

    def init(self, context: Any) -> None:
        self.counts = context.get_store("counts")

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        view = envelope.message
        number = (self.counts.get(view.member) or 0) + 1
        self.counts.put(view.member, number)
        collector.send("numbered", {"member": view.member, "n": view.n, "number": number})


@task_application("file-numbering")
def numbering(app: Any) -> None:
    """Number the views of each member, over all runs."""
    views(app, 1)
    app.output_stream("numbered", system="log", schema="member bigint, n bigint, number bigint", partitions=1)
    app.store("counts", key="bigint", value="bigint")
    app.task(_Numbering)


STOPS_AT: list[int] = []
"""The number of a view at which a task of :func:`stopping` ends the run."""


class _Stopping(StreamTask):
    """Copies views until it ends the run."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        collector.send("copies", {"member": envelope.message.member, "n": envelope.message.n})
        if envelope.message.n in STOPS_AT:
            coordinator.shutdown(RequestScope.ALL_TASKS)


@task_application("file-stopping")
def stopping(app: Any) -> None:
    """Copy views until one of them ends the run."""
    views(app, 1)
    app.output_stream("copies", system="log", schema=VIEW, partitions=1)
    app.task(_Stopping)


@stream_application("file-copies")
def copies(app: Any) -> None:
    """Copy every view twice: by a stage that reads the files, and by one that reads them beside a topic of the run."""
    read = views(app, 3)
    again = read.partition_by("member", id="again")
    read.merge(again).send_to(app.output_stream("copies", system="log", schema=VIEW, partitions=2, key="member"))
