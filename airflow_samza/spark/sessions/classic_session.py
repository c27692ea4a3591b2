"""A Spark session in the stage runner's own process: ``local[*]``, or the driver that spark-submit started.

The runner on Spark opens it, and a warm runner lends it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import psutil

from airflow_samza.engine.placement import Executor
from airflow_samza.launch.masters import AUTHENTICATE, ENCRYPT, open_doors, parse_master
from airflow_samza.runs.stages.spark_page import PAGE_SETTINGS, SparkPage, spark_page
from airflow_samza.spark.sessions.driver_session import NO_PROPERTIES, DriverSession
from airflow_samza.spark.sessions.session_start import set_conf, start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger("airflow_samza.runner")

_POOL = "spark.scheduler.pool"
"""Within one pool jobs queue behind each other, also where the scheduler is fair."""


_DYNAMIC = "spark.dynamicAllocation.enabled"

_DRIVER = "driver"
"""Spark's name of the driver among the executors."""


class ClassicSession(DriverSession):
    """A driver of our own."""

    def __init__(self, name: str, master: str, conf: Mapping[str, str], class_archives: str | None = None) -> None:
        self._master = master
        self._session = self._open(name, conf, class_archives)
        warning = open_doors(parse_master(master), self._settings((AUTHENTICATE, *ENCRYPT)))
        if warning is not None:
            log.warning("%s", warning)
        self._shared: dict[tuple[tuple[str, str], ...], SparkSession] = {}
        self._making = threading.Lock()

    def _open(self, name: str, conf: Mapping[str, str], class_archives: str | None) -> SparkSession:
        return start_session(name, self._master, conf, class_archives)

    @property
    def place(self) -> str:
        """``Spark (local[*])``."""
        return f"Spark ({self._master})"

    def ship(self, code: Sequence[str], archives: Sequence[str]) -> None:
        """Bring zips of code and archives (``path#name``) to every executor, before the first stage."""
        for path in code:
            self._session.sparkContext.addPyFile(path)
        for archive in archives:
            self._session.sparkContext.addArchive(archive)

    @contextmanager
    def stage_session(self, conf: Mapping[str, str], *, own: bool) -> Iterator[SparkSession]:
        """Return a session of the stage's settings.

        Stages with the same settings share one, unless they register names in it.
        """
        key = tuple(sorted(conf.items()))
        with self._making:
            session = None if own else self._shared.get(key)
            if session is None:
                session = self._session.newSession()
                set_conf(session, conf, self.place)
                if not own:
                    self._shared[key] = session
        yield session

    @property
    def knows_executors(self) -> bool:
        """True where it is no local session."""
        return not parse_master(self._master).is_local

    def executors(self) -> Sequence[Executor]:
        """Return the executors that the driver's own listener knows."""
        active_only = True
        listed: Any = self._session.sparkContext._jsc.sc().statusStore().executorList(active_only)
        executors = [listed.apply(number) for number in range(listed.size())]
        return [Executor(one.id(), one.hostPort().rpartition(":")[0]) for one in executors if one.id() != _DRIVER]

    @property
    def cores(self) -> int | None:
        """Return the places for tasks on the executors, or on this host; None where Spark adds executors as it needs.

        Spark's own ``defaultParallelism`` may be a setting.
        """
        if self._adds_executors:
            return None
        context: Any = self._session.sparkContext._jsc.sc()
        return context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()) or None

    @cached_property
    def _adds_executors(self) -> bool:
        return self._settings((_DYNAMIC,))[_DYNAMIC].lower() == "true"

    def frame_at(self, spark: SparkSession, locations: Sequence[Sequence[str]]) -> DataFrame:
        """Spark's own ``makeRDD`` with preferred locations, which Python has no other way to."""
        from pyspark.sql import DataFrame

        context = spark.sparkContext
        jvm: Any = context._jvm
        gateway: Any = context._gateway
        rows = []
        for number, preferred in enumerate(locations):
            values = gateway.new_array(jvm.java.lang.Object, 1)
            values[0] = number
            rows.append(
                jvm.scala.Tuple2(
                    jvm.org.apache.spark.sql.RowFactory.create(values), jvm.PythonUtils.toSeq(list(preferred))
                )
            )
        kind = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("org.apache.spark.sql.Row"))
        java: Any = spark
        rdd = context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq(rows), kind).toJavaRDD()
        schema = jvm.org.apache.spark.sql.types.StructType.fromDDL("place int")
        return DataFrame(java._jsparkSession.createDataFrame(rdd, schema), spark)

    @contextmanager
    def tagged(
        self,
        spark: SparkSession,
        tag: str,
        description: str,
        *,
        pool: str = "",
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> Iterator[None]:
        """Set a job group as the tag, and local properties of the thread.

        Every stage has a thread of its own, so the former ones are not restored.
        """
        interrupt_workers = True
        spark.sparkContext.setJobGroup(tag, description, interrupt_workers)
        for key, value in {**({_POOL: pool} if pool else {}), **properties}.items():
            spark.sparkContext.setLocalProperty(key, value)
        yield

    def cancel(self, tag: str) -> None:
        """Cancel the job group."""
        self._session.sparkContext.cancelJobGroup(tag)

    def answers(self) -> bool:
        """Ask whether its context has stopped: each thread has a connection of its own to Java."""
        context: Any = self._session.sparkContext
        try:
            return not context._jsc.sc().isStopped()
        except Exception:  # Java is dead, or Spark was stopped: no sign of life either way
            return False

    def page(self) -> SparkPage:
        """Return the page of the driver, and of its history where the settings name a server of it."""
        context = self._session.sparkContext
        return spark_page(context.applicationId or "", context.uiWebUrl, self._settings(PAGE_SETTINGS))

    def processor_seconds(self) -> float | None:
        """Of the Java that is this process's child, or its parent under spark-submit."""
        java = self._java()
        try:
            used = java.cpu_times() if java is not None else None
        except psutil.Error:
            return None
        return used.user + used.system if used is not None else None

    def stop(self) -> None:
        """Stop Spark."""
        self._session.stop()

    def kill(self) -> None:
        """Kill Java; its Python workers end with it."""
        java = self._java()
        if java is not None:
            with suppress(psutil.Error):
                java.kill()

    def _settings(self, names: Iterable[str]) -> dict[str, str]:
        """Return some settings of Spark: each is a call of Java's, and all of them are hundreds."""
        return {name: self._session.sparkContext._conf.get(name, "") or "" for name in names}

    def _java(self) -> psutil.Process | None:
        """Return Java's process: one that this process started, or the one from which spark-submit started it."""
        gateway: Any = self._session.sparkContext._gateway
        started = getattr(gateway, "proc", None)
        number = started.pid if started is not None else os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else None
        try:
            return psutil.Process(number) if number is not None else None
        except psutil.Error:
            return None
