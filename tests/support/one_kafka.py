"""The one Kafka of a test run: one process starts it in the background, all processes of pytest-xdist use it.

It starts when the tests are known, if one of them needs it, while others run. The process that began the run ends it.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import until

if TYPE_CHECKING:
    from demo.kafka import Kafka

FIXTURE = "kafka"
USERS = {"alice": "alice-secret", "bob": "bob-secret", "carol": "carol-secret"}
"""Those with a password, beside the admin, who may do nothing until an ACL allows it."""

SECONDS = 180.0


def start_early(session: pytest.Session) -> None:
    """Start it, where this is the process to do so and a test of the run needs it."""
    if _starts(session.config) and any(map(_needs, session.items)):
        started = session.config.stash[_STARTED] = _Started()
        threading.Thread(target=started.start, args=[_place(session.config)], name="kafka", daemon=True).start()


def _needs(item: pytest.Item) -> bool:
    """Return True if a test asks for it, or is marked so because its parameter does."""
    return FIXTURE in getattr(item, "fixturenames", ()) or item.get_closest_marker("kafka") is not None


def running(config: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Kafka:
    """Return it, when it is ready."""
    from demo.kafka import Kafka

    place = _place(config)
    until(lambda: _ready(place).exists() or _failed(place).exists(), SECONDS)
    if _failed(place).exists():
        pytest.fail(_failed(place).read_text())
    return Kafka(place / "broker", secure=True, users=USERS)


def end(config: pytest.Config) -> None:
    """End it, where this is the process that began the run."""
    if (started := config.stash.get(_STARTED, None)) is not None:
        started.launched.wait(SECONDS)
    if hasattr(config, "workerinput"):
        return
    with suppress(OSError, ValueError):
        os.kill(int((_place(config) / "pid").read_text()), signal.SIGKILL)


class _Started:
    """The Kafka that this process started."""

    def __init__(self) -> None:
        self.launched = threading.Event()
        self.broker: Kafka | None = None

    def start(self, place: Path) -> None:
        try:
            from demo.kafka import Kafka

            place.mkdir()
            self.broker = Kafka(place / "broker", secure=True, users=USERS)
            self.broker.prepare()
            self.broker.launch()
            assert self.broker.process is not None
            (place / "pid").write_text(str(self.broker.process.pid))
            self.launched.set()
            self.broker.await_ready()
            _use_first(self.broker.address)
            _ready(place).touch()
        except BaseException:  # each test that needs it fails with this
            _failed(place).write_text(traceback.format_exc())
        finally:
            self.launched.set()


def _use_first(address: str) -> None:
    """Begin a transaction: the first producer that asks a new broker for its id has to ask again, and prints that."""
    from confluent_kafka import Producer

    first = Producer({"bootstrap.servers": address, "transactional.id": "the-first", "log_level": 0})
    first.init_transactions(SECONDS)


_STARTED = pytest.StashKey[_Started]()


def _starts(config: pytest.Config) -> bool:
    return bool(
        getattr(config, "workerinput", {}).get("workerid", "gw0") == "gw0"
    )  # without workers: the process itself


def _place(config: pytest.Config) -> Path:
    """The folder that all processes of a run share."""
    base: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    return (base.parent if hasattr(config, "workerinput") else base) / "one-kafka"


def _ready(place: Path) -> Path:
    return place / "ready"


def _failed(place: Path) -> Path:
    return place / "failed"
