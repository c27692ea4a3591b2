"""Questions to brokers, asked again while an answer may still come; a line in the log says what is waited for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import TypeVar

import tenacity
from confluent_kafka import KafkaError, KafkaException

from airflow_samza.systems.kafka.failures import error_of

log = logging.getLogger("airflow_samza.kafka")

_LOGGED_AFTER_SECONDS = 5.0
"""Shorter absences are ordinary: a broker hands its partitions over, a connection is made anew."""


class Waiting:
    """One wait for brokers that are away, for at most ``seconds``; the log says until when, and that it is over.

    ``what`` names what is to come, with the verb: ``Answers of … have``.
    """

    def __init__(self, what: str, seconds: float) -> None:
        self._what = what
        self._seconds = seconds
        self._since = time.monotonic()
        self._logged = False

    @property
    def seconds(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self._since

    @property
    def is_over(self) -> bool:
        """Return whether nobody waits any longer."""
        return self.seconds > self._seconds

    def still(self, why: str) -> None:
        """Note that it has not come; ``why`` is the newest cause that is known."""
        left = self._seconds - self.seconds
        if self._logged or self.seconds < min(_LOGGED_AFTER_SECONDS, self._seconds / 2):
            return
        self._logged = True
        until = datetime.now(timezone.utc) + timedelta(seconds=left)
        log.warning(
            "%s not come for %.0f s (%s): waiting until %s UTC, then this try fails",
            self._what,
            self.seconds,
            why,
            f"{until:%H:%M:%S}",
        )

    def over(self) -> None:
        """Note that it has come."""
        if self._logged:
            log.warning("%s come, after %.0f s", self._what, self.seconds)


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
    kafka_error = error_of(error)
    return bool(kafka_error.retriable()) or kafka_error.code() in _PASSING | _FORMER_LEADERS


def answer_to(
    ask: Callable[[], T], seconds: float, waiting: Waiting | None = None, renew: Callable[[], None] = lambda: None
) -> T:
    """Return the answer to a question, which is asked again for so many seconds; ``waiting`` notes that in the log.

    ``renew`` lets go of a client that asks a former leader.
    """

    def log_retry(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, KafkaException) and error_of(error).code() in _FORMER_LEADERS:
            renew()
        if waiting is not None:
            waiting.still(error_of(error).str() if isinstance(error, KafkaException) else str(error))

    asking = tenacity.Retrying(
        retry=tenacity.retry_if_exception(passes),
        stop=tenacity.stop_after_delay(seconds),
        wait=tenacity.wait_exponential(0.05, 1.0),
        before_sleep=log_retry,
        reraise=True,
    )
    answer = asking(ask)
    if waiting is not None:
        waiting.over()
    return answer
