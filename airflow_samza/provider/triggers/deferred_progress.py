"""Progress of deferred stages, reported beside the look for their end.

Heads of inputs are asked for at their servers, with the connections that bind the systems. Whoever does not answer
delays no event of the trigger and fails no task: the lag is left out of the report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any

from airflow.sdk import BaseHook

from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.provider.connections.bindings import binding_of
from airflow_samza.provider.triggers.client_threads import CLIENT_THREADS, in_client_thread
from airflow_samza.runs.progress.progress import ProgressReport
from airflow_samza.runs.progress.progress_log import Measure, ProgressLog
from airflow_samza.runs.progress.stage_progress import bound_answers, heads_of, unknown_lag
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.runs.stages.stage_state import StageHandle, StageStatus
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.system import System, SystemBinding


class DeferredProgress(ProgressLog):
    """Reports in a thread of clients, one report at a time; after :meth:`end` nothing is reported any more."""

    def __init__(
        self,
        tell: Callable[[str], object],
        measure: Measure,
        interval: float,
        emit: Callable[[ProgressReport], None],
        said: Mapping[str, str] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            lambda line: None if self._is_over else tell(line),
            measure,
            interval,
            lambda report: None if self._is_over else emit(report),
            said=said,
            names=names,
        )
        self._is_over = False
        self._reporting: Future[None] | None = None

    def report(self, handle: StageHandle, status: StageStatus, *, quietly: bool = False) -> None:
        """Begin a report, unless one is being made; this one stays due then."""
        if self._reporting is None or self._reporting.done():
            self._reporting = CLIENT_THREADS.submit(copy_context().run, self._report, handle, status)

    def end(self) -> None:
        """Report no more: the worker makes the last report of a stage that has ended."""
        self._is_over = True

    def _report(self, handle: StageHandle, status: StageStatus) -> None:
        try:
            super().report(handle, status)
        except Exception as error:  # a stage does not fail for want of figures
            self.tell_not_read(handle, repr(error))


class WatchedSystems:
    """The systems of a run, each bound when a report asks for heads of its streams.

    Where that fails, or no answer comes, they know no heads, and ``tell`` gets the reason once.

    :param kept: The systems as the run's record has them.
    :param systems: Connection ids by the names of those systems that are asked.
    """

    def __init__(
        self,
        kept: Mapping[str, Mapping[str, Any]],
        systems: Mapping[str, str],
        root: str,
        tell: Callable[[str], object],
    ) -> None:
        self._kept, self._systems, self._root = kept, systems, root
        self._tell = tell
        self._bindings: Mapping[str, SystemBinding | Exception] = {}
        self._bound: dict[str, System] = {}
        self._problem = ""
        self.needs_connections = bool(systems)

    async def connect(self) -> None:
        """Find the connections, and bind the systems anew: connections may have been corrected."""
        # Reading a connection has Airflow mask its secrets, which not every thread may ask of it.
        self._bindings = await in_client_thread(lambda: {name: _read(name, id_) for name, id_ in self._systems.items()})
        self._bound, self.needs_connections = {}, False

    def __call__(self, bound: BoundStream) -> Sequence[int]:
        """Return the heads of a stream; none where they cannot be had."""
        name = bound.system
        try:
            if name not in self._bound:
                self._bound[name] = self._bind(name)
            return heads_of(self._bound, bound)
        except Exception as error:
            self.needs_connections = bool(self._systems)
            if str(error) != self._problem:
                self._problem = str(error)
                self._tell(unknown_lag(name, error))
            return ()

    def _bind(self, name: str) -> System:
        binding = self._bindings.get(name)
        if isinstance(binding, Exception):
            raise binding
        own_binding = {name: binding} if binding is not None else {}
        system = bind_system(name, run_bindings({name: self._kept[name]}, own_binding)[name], self._root)
        bound_answers([system])
        return system


def _read(name: str, conn_id: str) -> SystemBinding | Exception:
    """Return the binding that a system's connection gives, or what is wrong with it."""
    try:
        return binding_of(name, conn_id, connection_of(conn_id), connection_of)
    except Exception as error:
        return error


class NoConnection(LookupError):
    """Error for a connection that a triggerer cannot find: it is gone, or whoever knows it does not answer now."""


def connection_of(conn_id: str) -> Any:
    """Return a connection of Airflow, as a triggerer finds it."""
    try:
        return BaseHook.get_connection(conn_id)
    except Exception:  # backends of secrets raise what they like
        raise NoConnection(f"the triggerer cannot find the connection {conn_id!r}") from None
