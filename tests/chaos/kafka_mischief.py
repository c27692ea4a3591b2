"""Faults of a run over Kafka, beside those of its hosts: of its broker, its network, its publications."""

from __future__ import annotations

import random
from typing import Any

import psutil

from demo.kafka import Kafka
from tests.chaos.mischief import Kind, Mischief
from tests.support.kafka_proxy import CLOSE_AFTER, CLOSE_BEFORE, DROP_ANSWER, PASS, SILENCE, Asked, KafkaProxy
from tests.support.publication_steps import STEPS
from tests.support.runner_without_spark import PUBLICATION

FAULTS = (DROP_ANSWER, CLOSE_AFTER, CLOSE_BEFORE, SILENCE)


class KafkaMischief(Mischief):
    """A round's mischief; the clients of runs reach the broker through the proxy."""

    def __init__(self, broker: Kafka, proxy: KafkaProxy, *given: Any, **named: Any) -> None:
        self._broker = broker
        self._proxy = proxy
        super().__init__(*given, **named)

    def more_kinds(self) -> list[Kind]:
        return [
            ("kill the broker", self._kill_broker),
            ("stop the broker", self._stop_broker),
            ("freeze the broker", self._freeze_broker),
            ("unplug the network", self._unplug),
            ("lose answers", self._lose_answers),
            ("silence the connections", self._silence),
            ("kill a publisher at a step", lambda: self._signal_publisher("SIGKILL")),
            ("freeze a publisher at a step", lambda: self._signal_publisher("SIGSTOP")),
        ]

    def end(self) -> None:
        self.dials.turn(PUBLICATION, None)
        super().end()
        self._proxy.fault = lambda asked: PASS
        for process in self.processes():  # one that stopped itself in a publication
            if process.status() == psutil.STATUS_STOPPED:
                self._thaw(process)

    def _kill_broker(self) -> str:
        self._broker.kill()
        return self._start_broker()

    def _stop_broker(self) -> str:
        self._broker.stop()
        return self._start_broker()

    def _start_broker(self) -> str:
        seconds = self.chance.uniform(0.0, 5.0)
        self.over.wait(seconds)
        self._broker.restart()
        return f"away for {seconds:.1f} s and its start"

    def _freeze_broker(self) -> str:
        seconds = self.chance.uniform(0.5, 8.0)
        self._broker.freeze()
        self.over.wait(seconds)
        self._broker.thaw()
        return f"for {seconds:.1f} s"

    def _unplug(self) -> str:
        seconds = self.chance.uniform(0.3, 8.0)
        self._proxy.unplug()
        self.over.wait(seconds)
        self._proxy.plug()
        return f"for {seconds:.1f} s"

    def _lose_answers(self) -> str:
        seconds, share = self.chance.uniform(1.0, 6.0), self.chance.choice([0.02, 0.1, 0.3])
        chance, before = random.Random(self.chance.getrandbits(32)), len(self._proxy.faults)

        def fault(asked: Asked) -> str:
            return chance.choice(FAULTS) if chance.random() < share else PASS

        self._proxy.fault = fault
        self.over.wait(seconds)
        self._proxy.fault = lambda asked: PASS
        return f"{len(self._proxy.faults) - before} requests in {seconds:.1f} s"

    def _silence(self) -> str:
        return f"{self._proxy.silence()} of them"

    def _signal_publisher(self, name: str) -> str | None:
        step = self.chance.choice(list(STEPS))
        times = self.chance.choice([1, 1, 2, 3, 5, 20] if step == "message" else [1, 1, 2, 3])
        self.dials.turn(PUBLICATION, f"{step} {times} {name}")
        self.over.wait(self.chance.uniform(1.0, 6.0))
        if self.dials.is_on(PUBLICATION):
            self.dials.turn(PUBLICATION, None)
            return None  # nobody came there
        return f"{step}, time {times}"
