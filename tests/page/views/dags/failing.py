"""Applications with what goes wrong at three in the morning: a file, a schema, a record, a killed process."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_samza import stream_application


@dataclass(frozen=True)
class Order:
    """A customer has ordered something."""

    order_id: int
    country: str


def taxed(order: Order) -> Order:
    """Return the order; there is no tax on one of nowhere."""
    if not order.country:
        raise ValueError(f"the order {order.order_id} has no country")
    return order


def devouring(order: Order) -> Order:
    """Take all memory, so that the kernel kills the process."""
    os.kill(os.getpid(), signal.SIGKILL)
    return order


def waiting(order: Order) -> Order:
    """Wait for the file ``go``; by then somebody has killed the stage runner."""
    signals = Path(os.environ["SAMZA_TEST_SIGNALS"])
    (signals / "begun").touch()
    while not (signals / "go").exists():
        time.sleep(0.1)
    return order


@stream_application("orders-without-file")
def without_file(app: Any) -> None:
    """Read a folder that nobody has written."""
    orders = app.input_stream("orders", system="logs", schema=Order, path="orders/nowhere", partitions=2)
    orders.send_to(app.output_stream("copied", system="warehouse", path="copied"))


@stream_application("orders-of-another-schema")
def of_another_schema(app: Any) -> None:
    """Read a table in which the country is a number."""
    orders = app.input_stream("orders", system="logs", schema=Order, path="orders/numbered", partitions=2)
    orders.send_to(app.output_stream("copied", system="warehouse", path="copied"))


@stream_application("orders-with-a-bad-record")
def with_a_bad_record(app: Any) -> None:
    """Fail at the one order that has no country."""
    orders = app.input_stream("orders", system="logs", schema=Order, path="orders/good", partitions=2)
    orders.map(taxed, schema=Order, id="tax").send_to(app.output_stream("taxed", system="warehouse", path="taxed"))


@stream_application("orders-that-wait")
def killed_runner(app: Any) -> None:
    """Wait until the stage runner is killed."""
    orders = app.input_stream("orders", system="logs", schema=Order, path="orders/good", partitions=2)
    orders.map(waiting, schema=Order, id="tax").send_to(app.output_stream("held", system="warehouse", path="held"))


@stream_application("orders-that-devour")
def killed_worker(app: Any) -> None:
    """End with the process that works on it."""
    orders = app.input_stream("orders", system="logs", schema=Order, path="orders/good", partitions=2)
    orders.map(devouring, schema=Order, id="tax").send_to(app.output_stream("kept", system="warehouse", path="kept"))
