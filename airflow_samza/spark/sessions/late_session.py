"""A local session of Spark that is opened when something of a run first needs it (decision 123).

The runner on Spark holds it from its start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from airflow_samza.runs.stages.spark_page import SparkPage
from airflow_samza.spark.sessions.driver_session import NO_PROPERTIES, DriverSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LateSession(DriverSession):
    """A session on a local master, which may never be up.

    ``open_session`` waits for Java, or starts it. ``abandon`` ends a Java that nobody has asked for.
    """

    def __init__(self, master: str, open_session: Callable[[], DriverSession], abandon: Callable[[], None]) -> None:
        self._master = master
        self._open_session = open_session
        self._abandon = abandon
        self._opening = threading.Lock()
        self._session: DriverSession | None = None

    @property
    def is_up(self) -> bool:
        """Return whether something has needed it yet."""
        return self._session is not None

    @property
    def place(self) -> str:
        """``Spark (local[*])``."""
        return f"Spark ({self._master})"

    def stage_session(self, conf: Mapping[str, str], *, own: bool) -> AbstractContextManager[SparkSession]:
        """Return a session of the stage's settings, now that one is needed."""
        return self._opened().stage_session(conf, own=own)

    @property
    def cores(self) -> int | None:
        """Return the places for tasks on this host."""
        return self._opened().cores

    def tagged(
        self,
        spark: SparkSession,
        tag: str,
        description: str,
        *,
        pool: str = "",
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> AbstractContextManager[None]:
        """Tag jobs of a session that is up."""
        return self._opened().tagged(spark, tag, description, pool=pool, properties=properties)

    def cancel(self, tag: str) -> None:
        """Kill the jobs with the tag; without a session there are none yet."""
        if self._session is not None:
            self._session.cancel(tag)

    def answers(self) -> bool:
        """Return True until there is a Spark that could be silent."""
        return self._session is None or self._session.answers()

    def page(self) -> SparkPage | None:
        """Return Spark's page once it is up."""
        return self._session.page() if self._session is not None else None

    def processor_seconds(self) -> float | None:
        """Return those of a Java that is used."""
        return self._session.processor_seconds() if self._session is not None else None

    def stop(self) -> None:
        """Stop what was opened; end a Java of which nobody has asked anything."""
        if self._session is not None:
            self._session.stop()
        else:
            self._abandon()

    def kill(self) -> None:
        """Kill Java where it is used."""
        if self._session is not None:
            self._session.kill()

    def _opened(self) -> DriverSession:
        """Return the session; where it does not come up, the next stage that needs it tries again."""
        with self._opening:
            if self._session is None:
                self._session = self._open_session()
            return self._session
