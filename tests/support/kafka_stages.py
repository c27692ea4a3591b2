"""An application whose stages are joined by topics on Kafka, and what it gives: by the one of ``looping``, and a join."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_samza.systems.kafka.own_topics.store import OwnTopics
from airflow_samza.systems.kafka.system import KafkaSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.dying_runners import Runners
from tests.support.looping import APPLICATION, Place

_BETWEEN = """def describe(app, bounded):
    app.system("events", kind="kafka", **{"bootstrap.servers": "ADDRESS"})
    app.default_system("events")
    described(app, bounded)
    lines = app.input_stream("more", system="log", schema="word string, n bigint", partitions=2, bounded=bounded)
    odd = lines.where("n % 2 = 1").partition_by("n", id="odd-by-n")
    all_of_it = lines.partition_by("n", id="all-by-n")
    both = odd.join(all_of_it, lambda one, other: {"word": other.word, "n": one.n}, id="both", key="n", ttl="1000 days",
                    schema="word string, n bigint")
    both.send_to(app.output_stream("pairs", system="log", schema="word string, n bigint", partitions=1))

def described(app, bounded):
"""


def application(address: str) -> str:
    """Return the source of the application, for a broker."""
    return APPLICATION.replace("def describe(app, bounded):\n", _BETWEEN.replace("ADDRESS", address))


@contextmanager
def looping_app(folder: Path, source: str) -> Iterator[Runners]:
    """Have the source be the module ``looping_app``, here and in the runners that are lent."""
    (folder / "looping_app.py").write_text(source)
    sys.path.insert(0, str(folder))
    sys.modules.pop("looping_app", None)
    made = Runners(folder)
    try:
        yield made
    finally:
        made.close()
        sys.path.remove(str(folder))
        sys.modules.pop("looping_app", None)


class KafkaPlace(Place):
    """A root with lines in two topics of the log, and an application whose stages are joined by Kafka."""

    def __init__(self, folder: Path, address: str) -> None:
        super().__init__(folder)
        self.address = address

    def send(self, first: int, count: int) -> None:
        import pyarrow as pa

        super().send(first, count)
        rows = self.sent[-count:]
        table = pa.table({"word": [word for word, _ in rows], "n": pa.array([n for _, n in rows], pa.int64())})
        self.log.append("more", table, key=["word"], partitions=2)

    @property
    def own_topics(self) -> OwnTopics:
        binding = SystemBinding("kafka", {"bootstrap.servers": self.address})
        return KafkaSystem("events", binding, self.runtime.root).own_topics

    def differences(self) -> list[str]:
        """Return the differences between the outputs and the model's."""
        odd = sorted((word, n) for word, n in self.sent if n % 2)
        outputs = {
            "copy": (self.copied(), sorted(self.sent)),
            "counts": (self.counted(), self.expected()),
            "minutes": (self.minutes(), self.expected_minutes()),
            "pairs": (sorted((row["word"], row["n"]) for row in self.rows("pairs")), odd),
        }
        return [name for name, (found, expected) in outputs.items() if found != expected]
