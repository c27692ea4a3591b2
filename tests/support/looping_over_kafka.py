"""The application of :mod:`tests.support.looping` with its streams on Kafka, all or some of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.run_plan import RunPlan
from tests.support.kafka_outputs import new_topic, read_all
from tests.support.looping import APPLICATION, FEW, Place, second_of

STREAMS = ("lines", "copy", "counts", "minutes")
OUTPUTS = STREAMS[1:]

_HEAD = """
from airflow_samza import count, stream_application, sum_, tumbling

LINE = "word string, n bigint, at timestamp"

def describe(app, bounded):
    app.system("events", kind="kafka", **{settings!r}){default}
"""


class KafkaPlace(Place):
    """A root, and a broker that runs reach under one address (``settings``), and the test under another.

    ``deliveries``: the streams that are on Kafka, with the ``delivery`` of outputs; ``between``: topics between stages
    are, too.
    """

    def __init__(
        self,
        folder: Path,
        code: Path,
        address: str,
        settings: Mapping[str, Any],
        deliveries: Mapping[str, str],
        *,
        between: bool = False,
    ) -> None:
        super().__init__(folder)
        self.address = address
        self.deliveries = deliveries
        self.topics = {name: new_topic() for name in deliveries}
        self.module = f"looping_{next(iter(self.topics.values())).replace('-', '_')}"
        self._producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})
        (code / f"{self.module}.py").write_text(self._application(settings, between=between))
        if str(code) not in sys.path:
            sys.path.insert(0, str(code))
        if "lines" in self.topics:
            admin = AdminClient({"bootstrap.servers": address})
            (made,) = admin.create_topics([NewTopic(self.topics["lines"], 2)]).values()
            made.result(60)

    def send(self, first: int, count: int) -> None:
        if "lines" not in self.topics:
            super().send(first, count)
            return
        rows = [(("a", "b", "c")[number % 3], number) for number in range(first, first + count)]
        for word, n in rows:
            at = datetime.fromtimestamp(second_of(n), timezone.utc).isoformat()
            value = json.dumps({"word": word, "n": n, "at": at})
            self._producer.produce(self.topics["lines"], value, partition=n % 2)
        assert self._producer.flush(120) == 0
        self.sent += rows

    def prepare(self, name: str, mode: str, run_id: str = "run", **config: str) -> RunPlan:
        names = {f"streams.{stream}.samza.physical.name": topic for stream, topic in self.topics.items()}
        request = RunRequest(f"{self.module}:{name}", run_id, mode=mode, config={**FEW, **names, **config})
        return self.runtime.prepare(request)

    def rows(self, topic: str) -> list[dict[str, Any]]:
        if topic not in self.topics:
            return super().rows(topic)
        rows = [json.loads(seen.value or b"") for seen in read_all(self.address, self.topics[topic])]
        for row in rows:
            if "window_start" in row:
                row["window_start"] = datetime.fromisoformat(row["window_start"].replace("Z", "+00:00"))
        if self.deliveries[topic] == "at_least_once":
            rows = list({repr(row): row for row in rows}.values())
        return sorted(rows, key=repr)

    def _application(self, settings: Mapping[str, Any], *, between: bool) -> str:
        body = APPLICATION.partition("def describe(app, bounded):\n")[2].partition('@stream_application("circling")')[0]
        flows = APPLICATION[APPLICATION.index('@stream_application("looping")') :]
        for stream, delivery in self.deliveries.items():
            options = "" if stream == "lines" else f', options={{"delivery": "{delivery}"}}'
            body = body.replace(f'("{stream}", system="log"', f'("{stream}", system="events"{options}')
        default = '\n    app.default_system("events")' if between else ""
        return _HEAD.format(settings=dict(settings), default=default) + body + flows
