"""The Spark of a warm runner: started once, lent to one run after another, and cleaned between two of them.

A run's driver process talks to Java by a server of its own, with a secret of its own, which is shut down with the run:
everything that Java kept for it goes with that server. What Spark itself shares between sessions is cleared. What a
run has left that cannot be cleared is a reason to replace the warm runner.
"""

from __future__ import annotations

import glob
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psutil

from airflow_samza.application.rejections import listed
from airflow_samza.launch.class_archive import make_in_background
from airflow_samza.spark.sessions.session_start import start_session

NAME = "airflow_samza warm runner"

QUIET_SECONDS = 10.0
"""The time in which tasks of a run that has ended have to end, too, and then its Python workers."""

# Between two collections of Java's garbage, each of which takes half as long as all that Java does for a small run.
COLLECT_SECONDS = 20.0

_LOOK_SECONDS = 0.02
_SMALL_HEAP = (("MinHeapFreeRatio", "5"), ("MaxHeapFreeRatio", "10"))
_WORKERS_LOG = "org.apache.spark.api.python.PythonWorkerFactory"
_DEFAULT_DATABASE = "default"


class WarmSpark:
    """A Spark that outlives runs. Every method is called from one thread, as Java knows threads by their connection."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._server: Any = None
        self._before: dict[str, Any] = {}
        self._collected_at = 0.0
        self._usual_heap: Sequence[tuple[str, str]] = ()
        self.java: psutil.Process | None = None

    def start(self) -> None:
        """Start it, with the archives of its runs."""
        settings = self._settings
        session = start_session(NAME, settings["master"], settings["conf"], settings["class_archives"])
        for archive in settings["archives"]:
            session.sparkContext.addArchive(archive)
        self._session = session
        context: Any = session.sparkContext
        self._jvm: Any = context._jvm
        self._context: Any = context._jsc.sc()
        self.java = psutil.Process(context._gateway.proc.pid)
        log4j = self._jvm.org.apache.logging.log4j
        # Spark says nothing of Python workers that are gone: each run's are ended after it.
        log4j.core.config.Configurator.setLevel(_WORKERS_LOG, log4j.Level.ERROR)
        java_session: Any = session
        java_session._jsparkSession.sharedState().externalCatalog()  # sets a setting of Hadoop's when it is first used
        self._before = self._lasting()

    def lend(self) -> dict[str, Any]:
        """Open a server for the next run; return what its driver process needs to use it."""
        session: Any = self._session
        _sessions(self._jvm).setDefaultSession(session._jsparkSession)
        if self._usual_heap:
            self._set_options(self._usual_heap)
            self._usual_heap = ()
        self._server = getattr(self._jvm, "org.apache.spark.api.python.Py4JServer")(self._context.conf())
        self._server.start()
        assert self.java is not None
        return {"port": self._server.getListeningPort(), "secret": self._server.secret(), "java": self.java.pid}

    def clean(self) -> str:
        """Remove what a run has left; return what could not be removed, empty when everything could."""
        self._context.cancelAllJobs()
        why = "" if self._is_quiet() else "tasks of a run do not end"
        if self._server is not None:
            self._server.shutdown()
            self._server = None
        why = why or self._end_workers()
        self._context.setLogLevel("WARN")
        session: Any = self._session
        _sessions(self._jvm).setDefaultSession(session._jsparkSession)
        shared: Any = session._jsparkSession.sharedState()
        shared.cacheManager().clearCache()
        shared.globalTempViewManager().clear()
        context: Any = session.sparkContext
        for dataset in dict(context._jsc.getPersistentRDDs()).values():
            dataset.unpersist()
        self._remove_folders(str(context._temp_dir))
        why = why or self._left_in(shared) or self._changed()
        if time.monotonic() - self._collected_at > COLLECT_SECONDS:
            self._collect()  # what hangs on sessions that are gone is freed after it
        return why

    def shrink(self) -> None:
        """Give back memory that only a run needs: the free part of Java's heap."""
        self._usual_heap = self._usual_heap or self._set_options(_SMALL_HEAP)
        self._collect()

    def _set_options(self, values: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Set options of Java, in this order; return what puts the former values back."""
        former: list[tuple[str, str]] = []
        with suppress(Exception):  # another kind of Java: its heap stays as it is
            bean = getattr(self._jvm, "java.lang.Class").forName("com.sun.management.HotSpotDiagnosticMXBean")
            options = self._jvm.java.lang.management.ManagementFactory.getPlatformMXBean(bean)
            for name, value in values:
                before = str(options.getVMOption(name).getValue())
                options.setVMOption(name, value)
                former.insert(0, (name, before))
        return former

    def _collect(self) -> None:
        self._collected_at = time.monotonic()
        getattr(self._jvm, "java.lang.System").gc()

    def is_healthy(self) -> bool:
        """Ask it; a Java that does not answer is for the caller to notice."""
        return not self._context.isStopped() and len(self._context.statusTracker().getExecutorInfos()) > 0

    def megabytes(self) -> int:
        """Return the memory of Java and its Python workers."""
        if self.java is None:
            return 0
        total = 0
        with suppress(psutil.Error):
            for process in (self.java, *self.java.children(recursive=True)):
                with suppress(psutil.Error):
                    total += process.memory_info().rss
        return total >> 20

    def stop(self) -> None:
        """Stop Spark; then have the archive of classes made with which the next one starts sooner."""
        self._session.stop()
        make_in_background(self._settings)

    def _is_quiet(self) -> bool:
        tracker = self._context.statusTracker()
        deadline = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < deadline:
            if not len(tracker.getActiveJobIds()) and not any(
                one.numRunningTasks() for one in tracker.getExecutorInfos()
            ):
                return True
            time.sleep(_LOOK_SECONDS)
        return False

    def _end_workers(self) -> str:
        """End every Python worker, which has imported a run's code; return what is left, in words.

        The daemon that forks them has imported none, and stays: it takes two seconds to start.
        """
        workers: list[psutil.Process] = []
        with suppress(psutil.Error):
            for daemon in self.java.children() if self.java is not None else []:
                with suppress(psutil.Error):  # another child of Java that goes is no reason to leave workers
                    workers += daemon.children(recursive=True)
        for worker in workers:
            with suppress(psutil.Error):
                worker.kill()
        _, left = psutil.wait_procs(workers, QUIET_SECONDS)  # Spark gives the next run any that is alive
        return "Python workers of a run do not end" if left else ""

    def _remove_folders(self, own: str) -> None:
        for folder in glob.glob(os.path.join(os.path.dirname(own), "pyspark-*")):
            if folder != own:
                shutil.rmtree(folder, ignore_errors=True)

    def _left_in(self, shared: Any) -> str:
        """Return which names or queries a run has left to later ones, in words."""
        catalog = shared.externalCatalog()
        in_memory = self._session.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory"
        if in_memory and (
            catalog.listDatabases().size() > 1
            or catalog.listTables(_DEFAULT_DATABASE).size()
            or catalog.listFunctions(_DEFAULT_DATABASE, "*").size()
        ):
            return "a run has left tables, functions or databases in Spark's catalog"
        return "a run has left a streaming query" if shared.activeStreamingQueries().size() else ""

    def _changed(self) -> str:
        """Return which settings of the whole process a run has changed, in words."""
        changed = []
        for what, now in self._lasting().items():
            before = self._before[what]
            if now != before:
                names = _differing(now, before) if hasattr(before, "entrySet") else ""
                changed.append(f"{what}{names}")
        return f"a run has changed {', '.join(changed)}" if changed else ""

    def _lasting(self) -> dict[str, Any]:
        context = self._context
        return {
            "Hadoop's settings": context.hadoopConfiguration().getPropsWithPrefix(""),
            "Java's system properties": getattr(self._jvm, "java.lang.System").getProperties().clone(),
            "the files of the Spark context": [
                context.listFiles().size(),
                context.listJars().size(),
                context.listArchives().size(),
            ],
            "the checkpoint folder": context.getCheckpointDir().toString(),
        }


def _differing(now: Any, before: Any) -> str:
    """Return the names of settings that differ; their values may be secrets."""
    names = {str(name) for name in [*now, *before] if now.get(name) != before.get(name)}
    return f" ({listed(sorted(names), 5)})"


def _sessions(jvm: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession._get_j_spark_session_class(jvm)


def kill_java(java: psutil.Process | None) -> None:
    """End a Java that does not answer; its Python workers end with it."""
    if java is not None:
        with suppress(psutil.Error):
            java.kill()


def is_dead(java: psutil.Process) -> bool:
    """Return whether Java has ended."""
    try:
        return java.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def is_frozen(java: psutil.Process) -> bool:
    """Return whether Java is stopped, and answers nothing."""
    with suppress(psutil.Error):
        return java.status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    return False
