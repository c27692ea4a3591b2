"""Topics of their own for the tests over a real Kafka."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.dying_runners import Runners
from tests.support.kafka_proxy import KafkaProxy
from tests.support.kafka_topics import Topics

if TYPE_CHECKING:
    from demo.kafka import Kafka


@pytest.fixture
def topics(kafka: Kafka) -> Topics:
    return Topics(kafka.address)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker of the module's own, with a listener behind a proxy; tests may kill it."""
    from demo.kafka import Kafka

    found = Kafka(tmp_path_factory.mktemp("proxied") / "broker", proxied=True)
    try:
        found.start()
        yield found
    finally:
        found.kill()


@pytest.fixture
def proxy(broker: Kafka) -> Iterator[KafkaProxy]:
    """A proxy in front of the module's broker, which loses answers when a test asks for it."""
    with KafkaProxy(broker.proxy_port, broker.proxied_port) as found:
        yield found


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for modules of applications."""
    folder = tmp_path_factory.mktemp("publishing")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def runners(code: Path) -> Iterator[Runners]:
    """Processes that run stages without Spark, and may be told to die."""
    made = Runners(code)
    yield made
    made.close()
