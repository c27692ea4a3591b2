"""Applications that carry state from run to run, for tests."""

from __future__ import annotations

from typing import Any

from airflow_samza import StreamTask, stream_application, task_application

CLICK = "member bigint, page string, n bigint"
VIEW = "member bigint, seconds bigint"


class _Counting(StreamTask):
    """Says of every click which of its member's it is."""

    def init(self, context: Any) -> None:
        self.counts = context.get_store("counts")

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        click = envelope.message
        number = (self.counts.get(click.member) or 0) + 1
        self.counts.put(click.member, number)
        collector.send("numbered", {"member": click.member, "page": click.page, "number": number})


def _counted(app: Any, store: str = "counts") -> None:
    app.input_stream("clicks", system="log", schema=CLICK, key="member", slice="checkpoint")
    app.output_stream("numbered", system="log", schema="member bigint, page string, number bigint", key="member", partitions=2)
    app.store(store, key="bigint", value="bigint")
    app.task(_Counting)


counting = task_application("counting")(_counted)


def _joined(app: Any) -> None:
    clicks = app.input_stream("clicks", system="log", schema=CLICK, slice="checkpoint").partition_by("member", id="clicks-by-member")
    views = app.input_stream("views", system="log", schema=VIEW, bounded=False).partition_by("member", id="views-by-member")
    both = clicks.join(
        views,
        lambda click, view: {"member": click.member, "page": click.page, "seconds": view.seconds},
        id="both",
        key="member",
        ttl="1000 days",
        schema="member bigint, page string, seconds bigint",
    )
    both.send_to(app.output_stream("joined", system="log", key="member", partitions=2))


joining = stream_application("joining", config={"job.intermediate.stream.partitions": "3"})(_joined)
