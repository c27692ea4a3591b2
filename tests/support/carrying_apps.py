"""Applications that carry state from run to run, for tests."""

from __future__ import annotations

from typing import Any

from airflow_samza import StreamTask, count, stream_application, sum_, task_application, tumbling

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
    app.output_stream(
        "numbered", system="log", schema="member bigint, page string, number bigint", key="member", partitions=2
    )
    app.store(store, key="bigint", value="bigint")
    app.task(_Counting)


counting = task_application("counting")(_counted)


def _joined(app: Any) -> None:
    clicks = app.input_stream("clicks", system="log", schema=CLICK, slice="checkpoint").partition_by(
        "member", id="clicks-by-member"
    )
    views = app.input_stream("views", system="log", schema=VIEW, bounded=False).partition_by(
        "member", id="views-by-member"
    )
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


def _produced(app: Any) -> None:
    clicks = app.input_stream("clicks", system="log", schema=CLICK, slice="checkpoint").partition_by(
        "member", id="by-member"
    )
    clicks.send_to(
        app.output_stream("shared-clicks", system="log", schema=CLICK, key="member", partitions=3, shared=True)
    )


producing = stream_application("producing")(_produced)


def _produced_each_day(app: Any) -> None:
    clicks = app.input_stream("clicks", system="log", schema=CLICK, bounded=True).partition_by("member", id="by-member")
    clicks.send_to(
        app.output_stream("shared-clicks", system="log", schema=CLICK, key="member", partitions=3, shared=True)
    )


daily = stream_application("daily")(_produced_each_day)
"""As ``producing``, of bounded runs: one replaces what another has written for its interval."""


def _summed(app: Any) -> None:
    clicks = app.shared_stream("shared-clicks", system="log", schema=CLICK, key="member", bounded=True)
    clicks.aggregate("member", clicks=count(), id="per-member").send_to(
        app.output_stream("sums", system="log", partitions=1)
    )


summing = stream_application("summing")(_summed)


def _counted_from_shared(app: Any) -> None:
    app.shared_stream("shared-clicks", system="log", schema=CLICK, key="member")
    app.output_stream(
        "numbered", system="log", schema="member bigint, page string, number bigint", key="member", partitions=2
    )
    app.store("counts", key="bigint", value="bigint")
    app.task(_Counting)


following = task_application("following")(_counted_from_shared)


def _ended_by_many(app: Any) -> None:
    out = app.output_stream("shared-clicks", system="log", schema=CLICK, key="member", partitions=3, shared=True)
    clicks = app.input_stream("clicks", system="log", schema=CLICK)
    clicks.send_to(out)
    clicks.partition_by("member", id="by-member").send_to(out)


two_writers = stream_application("two-writers")(_ended_by_many)


TIMED = "member bigint, n bigint, at timestamp"


def windowed(*, bounded: bool) -> Any:
    """Windows, copies and a join of two inputs; unbounded inputs are carried on from run to run."""

    def describe(app: Any) -> None:
        options: dict[str, Any] = {
            "system": "log",
            "schema": TIMED,
            "timestamp": "at",
            "max_delay": "2 minutes",
            "bounded": bounded,
        }
        clicks = app.input_stream("clicks", **options).partition_by("member", id="clicks-by-member")
        views = app.input_stream("views", **options).where("n > 0").partition_by("member", id="views-by-member")
        windows = clicks.window(tumbling("1 minute"), key="member", clicks=count(), total=sum_("n"), id="per-minute")
        windows.send_to(app.output_stream("per-minute", system="log", key="member", partitions=2))
        once = clicks.distinct(["member", "n"], within="90 seconds", keep="last", id="once")
        once.send_to(app.output_stream("once", system="log", key="member", partitions=2))
        joined = clicks.join(
            views,
            lambda click, view: {"member": click.member, "click": click.n, "view": view.n},
            id="both",
            key="member",
            ttl="3 minutes",
            schema="member bigint, click bigint, view bigint",
        )
        joined.send_to(app.output_stream("joined", system="log", key="member", partitions=2))

    return stream_application("windowed", config={"job.intermediate.stream.partitions": "3"})(describe)


windowing = windowed(bounded=False)


def _counted_by_interval(app: Any) -> None:
    schema = "member bigint, page string, at timestamp"
    app.input_stream(
        "clicks", system="lake", schema=schema, partitions=1, bounded=False, timestamp="at", slice="timestamp"
    )
    app.input_stream("known", system="log", schema="member bigint", partitions=1, bootstrap=True)
    app.output_stream("numbered", system="log", schema="member bigint, page string, number bigint", partitions=1)
    app.store("counts", key="bigint", value="bigint")
    app.task(_CountingKnown)


class _CountingKnown(_Counting):
    """The same for members that are known; a bounded input says anew in each run who they are."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.known: set[int] = set()

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        if envelope.stream == "known":
            self.known.add(envelope.message.member)
        elif envelope.message.member in self.known:
            super().process(envelope, collector, coordinator)


by_interval = task_application("by-interval")(_counted_by_interval)


def _recounted(app: Any) -> None:
    app.input_stream("numbered", system="log", schema="member bigint, page string, number bigint", slice="checkpoint")
    app.output_stream(
        "recounted", system="log", schema="member bigint, page string, number bigint", key="member", partitions=2
    )
    app.store("counts", key="bigint", value="bigint")
    app.task(_Recounting)


class _Recounting(_Counting):
    """Says of every click which of its member's it is, of the messages that another application writes."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        click = envelope.message
        number = (self.counts.get(click.member) or 0) + 1
        self.counts.put(click.member, number)
        collector.send("recounted", {"member": click.member, "page": click.page, "number": number})


recounting = task_application("recounting")(_recounted)


def _parted_and_met(app: Any) -> None:
    clicks = app.input_stream("clicks", system="log", schema=CLICK)
    few = clicks.partition_by("member", id="by-member").where("n < 3", id="few").partition_by("page", id="few-by-page")
    more = clicks.partition_by("n", id="by-n").where("n >= 3", id="more").partition_by("page", id="more-by-page")
    few.merge(more, id="met").send_to(app.output_stream("met", system="log", schema=CLICK, key="page", partitions=2))


meeting = stream_application("meeting")(_parted_and_met)
"""Four stages: the second and third read what the first writes, the fourth what both of them write."""


def _parted(app: Any) -> None:
    clicks = app.input_stream("clicks", system="log", schema=CLICK)
    out = app.output_stream("parts", system="log", schema=CLICK, key="page", partitions=2)
    clicks.where("n < 3", id="few").send_to(out)
    clicks.partition_by("page", id="by-page").where("n >= 3", id="more").send_to(out)


parting = stream_application("parting")(_parted)
"""Two stages that both write its output."""


@stream_application("open-ended", config={"job.intermediate.stream.partitions": "2"})
def open_ended(app: Any) -> None:
    """Says nowhere whether its input has an end: its runs do."""
    views = app.input_stream(
        "views", system="log", schema="country string, at timestamp, n bigint", timestamp="at", max_delay="10 minutes"
    )
    (
        views.partition_by("country", id="by-country")
        .window(tumbling("1 minute"), key="country", views=count(), seen=sum_("n"), id="minutes")
        .send_to(app.output_stream("per-minute", system="log", key="country", partitions=2))
    )
