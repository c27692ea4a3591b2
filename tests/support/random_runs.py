"""Random applications in the test driver."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from samza_spark_apps.random_apps import Plan

from airflow_samza.testing import TestDriver


def driver_of(plan: Plan, *, bounded: bool, reduced: bool = False) -> TestDriver:
    """A driver of the application with inputs of this kind."""
    return TestDriver(
        plan.application(bounded=bounded), partitions=plan.partitions, config=plan.config, reduced=reduced
    )


def outputs(driver: TestDriver) -> dict[str, list[str]]:
    """All that came out, without an order."""
    return {stream: sorted(repr(row) for row in driver.output(stream)) for stream in driver.spec.outputs}


def whole(plan: Plan, driver: TestDriver) -> TestDriver:
    """Pipes all messages in at once."""
    for stream, message in plan.messages():
        driver.pipe(stream, [message])
    return driver


def in_pieces(plan: Plan, driver: TestDriver, rng: random.Random, run: Callable[[TestDriver], Any]) -> TestDriver:
    """Pipes the messages in a few at a time, with a run after each piece."""
    waiting = plan.messages()
    while waiting:
        size = rng.randint(1, 20)
        for stream, message in waiting[:size]:
            driver.pipe(stream, [message])
        del waiting[:size]
        run(driver)
    return driver
