"""A low-level task of coroutines with a store and timers, and an application that calls a coroutine function."""

from __future__ import annotations

import asyncio
from typing import Any

from airflow_samza import AsyncStreamTask, stream_application, task_application

VISITS = "member_id bigint, country string"


class Counting(AsyncStreamTask):
    """Sends each visit with the number of visits of its member so far; at the end the timers tell the totals."""

    async def init(self, context: Any) -> None:
        self.visits = context.get_store("visits")
        self.timers = context.timers

    async def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        await asyncio.sleep(0.001)
        member = envelope.message.member_id
        nth = (self.visits.get(member) or 0) + 1
        self.visits.put(member, nth)
        self.timers.set(member, 1000 + member)
        collector.send("counted", {"member_id": member, "nth": nth})

    def on_timer(self, key: Any, time: int, collector: Any, coordinator: Any) -> None:
        collector.send("counted", {"member_id": -key, "nth": self.visits.get(key)})


@task_application("counting-visits", config={"task.max.concurrency": "8", "job.epoch.max.messages": "50"})
def counting(app: Any) -> None:
    app.input_stream("visits", system="log", schema=VISITS, key="member_id")
    app.output_stream("counted", system="log", schema="member_id bigint, nth bigint", partitions=2, key="member_id")
    app.store("visits", key="bigint", value="bigint")
    app.task(Counting)


async def upper(visit: Any) -> Any:
    await asyncio.sleep(0.001)
    return {**visit, "country": visit.country.upper()}


@stream_application("calling", config={"job.epoch.max.messages": "50"})
def calling(app: Any) -> None:
    visits = app.input_stream("visits", system="log", schema=VISITS, partitions=2)
    loud = visits.map_async(upper, concurrency=8, timeout="1 minute").partition_by("country", id="by-country")
    loud.send_to(app.output_stream("loud", system="log", schema=VISITS, partitions=2, key="country"))
