"""Topics of their own for the tests over a real Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.kafka_topics import Topics

if TYPE_CHECKING:
    from demo.kafka import Kafka


@pytest.fixture
def topics(kafka: Kafka) -> Topics:
    return Topics(kafka.address)
