"""Capabilities of systems, of which each class is asked once."""

from __future__ import annotations

from airflow_samza.systems.capabilities import Durable, FixesOutputs, has


class Fast:
    durable = False


class Table:
    def fix_output(self) -> None: ...

    def producer(self) -> None: ...


def test_a_capability_is_what_isinstance_says() -> None:
    for value in (Fast(), Table(), object()):
        for capability in (Durable, FixesOutputs):
            assert has(value, capability) is isinstance(value, capability)
            assert has(value, capability) is isinstance(value, capability)


def test_the_value_that_is_asked_first_answers_for_its_class() -> None:
    class Slow:
        pass

    first = Slow()
    first.durable = True  # type: ignore[attr-defined]  # as systems set it
    assert has(first, Durable)
    assert has(Slow(), Durable)
