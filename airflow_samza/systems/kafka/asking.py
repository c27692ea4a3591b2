"""Questions to brokers, asked again while an answer may still come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tenacity
from confluent_kafka import KafkaError, KafkaException

from airflow_samza.systems.kafka.failures import error_of
from airflow_samza.systems.kafka.waiting import Waiting

ANSWER_SECONDS = 10.0
"""Time in which one request has to be answered before it is sent again: a connection may be dead without a sign."""

_PASSING = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._NOENT,  # of a partition that has no leader yet
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
"""Codes of brokers that are away, have just started, or change their roles."""

T = TypeVar("T")


_FORMER_LEADERS = frozenset({KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH})
"""Codes of a client that asks a former leader, as it does for minutes after a broker has started again."""


def passes(error: BaseException) -> bool:
    """Return whether an error is one of brokers that will answer a later time."""
    if not isinstance(error, KafkaException):
        return False
    found = error_of(error)
    return bool(found.retriable()) or found.code() in _PASSING | _FORMER_LEADERS


def asked(
    ask: Callable[[], T], seconds: float, waiting: Waiting | None = None, renew: Callable[[], None] = lambda: None
) -> T:
    """Return the answer to a question, which is asked again for so many seconds; ``waiting`` notes that in the log.

    ``renew`` lets go of a client that asks a former leader.
    """

    def again(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, KafkaException) and error_of(error).code() in _FORMER_LEADERS:
            renew()
        if waiting is not None:
            waiting.still(error_of(error).str() if isinstance(error, KafkaException) else str(error))

    asking = tenacity.Retrying(
        retry=tenacity.retry_if_exception(passes),
        stop=tenacity.stop_after_delay(seconds),
        wait=tenacity.wait_exponential(0.05, 1.0),
        before_sleep=again,
        reraise=True,
    )
    found = asking(ask)
    if waiting is not None:
        waiting.over()
    return found
