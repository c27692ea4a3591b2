"""Spark as its engine needs it, by whichever way it is reached.

A session of its own, or a Spark Connect server. Jobs of stages and pushes, readers and writers of Spark run by it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from airflow_samza.engine.placement import Executor
from airflow_samza.launch.bindings import bindings_to_json
from airflow_samza.runs.stages.spark_page import SparkPage
from airflow_samza.systems.system import SystemBinding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


NO_PROPERTIES: Mapping[str, str] = {}


class DriverSession(ABC):
    """A session of Spark.

    Stages run in threads of their own, so all but ``stop`` is called from many. What is not abstract here holds for a
    Spark that tells of no executors and of no process.
    """

    @property
    def is_up(self) -> bool:
        """Return whether Spark is up; a local one may be opened later, when a stage needs it."""
        return True

    @property
    @abstractmethod
    def place(self) -> str:
        """The place of Spark for sentences, without secrets: ``the Spark Connect server sc://host:15002``."""

    @abstractmethod
    def stage_session(self, conf: Mapping[str, str], *, own: bool) -> AbstractContextManager[SparkSession]:
        """Return the session of one stage, with its settings.

        ``own``: no other stage may see what is registered there (temporary views).
        """

    @property
    def passes_properties(self) -> bool:
        """Return whether jobs carry properties to their tasks."""
        return True

    @property
    def knows_executors(self) -> bool:
        """Return whether tasks run on executors elsewhere, of which this session knows."""
        return False

    def executors(self) -> Sequence[Executor]:
        """Return the executors that live now, where they are known."""
        return ()

    @property
    def cores(self) -> int | None:
        """Return how many tasks Spark runs at a time; None where that is not known, or may become more."""
        return None

    def frame_at(self, spark: SparkSession, locations: Sequence[Sequence[str]]) -> DataFrame:
        """Return a DataFrame of one row in each partition, which Spark computes at the partition's locations.

        Only where executors are known.
        """
        raise NotImplementedError

    @abstractmethod
    def tagged(
        self,
        spark: SparkSession,
        tag: str,
        description: str,
        *,
        pool: str = "",
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> AbstractContextManager[None]:
        """Give jobs that this thread starts inside the tag, and the properties.

        Pools share the cores evenly, where Spark is ours.
        """

    def for_workers(self, spark: SparkSession | None, bindings: Mapping[str, SystemBinding]) -> dict[str, Any]:
        """Return bindings as JSON for functions that Spark's workers call, which ``unsealed`` reads there.

        No secret stands in it where Spark may log the function with the plan that it is in. Functions of a Spark of
        ours go from process to process, and into no log. ``spark`` is None where no session is up yet.
        """
        return bindings_to_json(bindings)

    @abstractmethod
    def cancel(self, tag: str) -> None:
        """Kill the jobs with the tag, and no other; there may be none, or none yet."""

    @abstractmethod
    def answers(self) -> bool:
        """Ask Spark something small, which it answers also while jobs run; True when it has.

        A Spark that is frozen never answers.
        """

    def page(self) -> SparkPage | None:
        """Return Spark's own page of this session's application, where it is known."""
        return None

    def processor_seconds(self) -> float | None:
        """Return the processor time that Spark's own process has used; None where it is none of this host."""
        return None

    @abstractmethod
    def stop(self) -> None:
        """End the session with all that still runs in it."""

    @abstractmethod
    def kill(self) -> None:
        """End Spark's own process where it is this runner's, without asking it.

        Calls that wait for an answer fail then.
        """


_LOST_CONNECTION = (
    # Spark Connect: the server's process is not there, or it is another than the one that had the session.
    "StatusCode.UNAVAILABLE",
    "INVALID_HANDLE.SESSION_CHANGED",
    "INVALID_HANDLE.SESSION_NOT_FOUND",
    "INVALID_HANDLE.SESSION_CLOSED",
    # A session of this process: its Java is dead, or has stopped.
    "Answer from Java side is empty",
    "Cannot call methods on a stopped SparkContext",
    "SparkContext was shut down",
)


def grpc_status(error: BaseException) -> str:
    """Return the status of a call to a Spark Connect server that has failed; "" of any other error."""
    status_code = getattr(error, "getGrpcStatusCode", None)
    return str(status_code()) if callable(status_code) else ""


def is_spark_lost(error: BaseException) -> bool:
    """Return whether an exception shows that Spark itself is gone, so that every later call of the session fails."""
    text = f"{grpc_status(error)} {error}"
    return any(words in text for words in _LOST_CONNECTION) or isinstance(error, ConnectionRefusedError)
