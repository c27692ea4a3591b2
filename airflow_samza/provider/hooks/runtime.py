"""RuntimeHook: from connections to the runtime, with its root, its systems and its Spark.

The Samza hook derives from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_samza.application.loader import load_application
from airflow_samza.errors import SamzaError
from airflow_samza.provider.airflow_versions import AirflowNotFoundException, conf
from airflow_samza.provider.configured_numbers import configured_number
from airflow_samza.provider.connections.bindings import SUPPORTED, binding_of, text_map, types_of
from airflow_samza.provider.connections.fields import candidate_ids, connection_id, extra_of, not_defined
from airflow_samza.provider.connections.spark import (
    CONNECT_TYPE,
    SOURCE_TYPES,
    SUBMIT_TYPES,
    SparkPlace,
    source_options,
    spark_place,
)
from airflow_samza.provider.containers import reject_own_disk, why_it_ends
from airflow_samza.provider.deferral import reject_short_lived, runner_outlives
from airflow_samza.provider.get_provider_info import CONFIG_SECTION
from airflow_samza.provider.hooks.root import RootHook
from airflow_samza.runs.records import liveness
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.system_kinds import KINDS_OF_NAMES

if TYPE_CHECKING:
    from airflow_samza.launch.runtime import SparkRuntime
    from airflow_samza.systems.system import SystemBinding


PLAN_ANEW = (
    "Clear the plan task of this run with its downstream tasks: stages that have not changed keep their results. A "
    "task that runs a whole application plans anew by itself when it is tried again."
)
"""The remedy for a run whose application has changed, in Airflow."""


class RuntimeHook(RootHook):
    """The part of the hook that makes the runtime of what connections hold."""

    def __init__(
        self,
        conn_id: str | None = None,
        *,
        samza_conn_id: str | None = None,
        systems: Mapping[str, str] | None = None,
        spark_conf: Mapping[str, Any] | None = None,
        py_modules: Sequence[str] = (),
        archives: Sequence[str] = (),
        runner_python: str | None = None,
        executor: str | None = None,
    ) -> None:
        super().__init__(connection_id("The hook", conn_id, samza_conn_id))
        self.systems = dict(systems or {})
        self.spark_conf = text_map("spark_conf", spark_conf)
        self.py_modules = tuple(py_modules)
        self.archives = tuple(archives)
        self.runner_python = runner_python
        self.executor = executor
        self.application = ""  # whose systems are bound, as far as an operator or a call names one; hints go by it
        self._runtime: SparkRuntime | None = None

    def get_conn(self) -> SparkRuntime:
        """Return the runtime under the root, with all systems bound."""
        if self._runtime is None:
            from airflow_samza.launch.runtime import SparkRuntime

            place = self.spark_place()
            self._runtime = SparkRuntime(
                self.root,
                self.bindings(),
                default_system=self.default_system,
                master=place.master,
                submit=place.submit,
                spark_conf=self._settings(place),
                py_modules=self.py_modules,
                archives=self.archives,
                class_archives=conf.get(CONFIG_SECTION, "class_archives", fallback="") or None,
                owner=self._owner(place),
                access=self.access,
                runner_python=self._runner_python(),
                warm_runners=conf.get(CONFIG_SECTION, "warm_runners", fallback=None),
                tenant=self.conn_id,
                plan_anew=PLAN_ANEW,
            )
        return self._runtime

    def _extra(self) -> dict[str, Any]:
        return extra_of(self.conn_id, self._connection(self.conn_id))

    def _settings(self, place: SparkPlace) -> dict[str, str]:
        """Return the Spark settings of all stages: the hook's own over the connection's over the Spark connection's."""
        return {**place.conf, **text_map("spark_conf", self._extra().get("spark_conf")), **self.spark_conf}

    def _runner_python(self) -> str:
        """Return the Python of stage runners: the hook's own, else the connection's; empty: this process's."""
        return self.runner_python or str(self._extra().get("runner_python") or "")

    @property
    def default_system(self) -> str | None:
        """The system of streams that name none, if the connection says one."""
        return str(self._extra().get("default_system") or "") or None

    def bindings(self) -> dict[str, SystemBinding]:
        """Return the bindings of the systems, from their connections; secrets are marked."""
        bindings: dict[str, SystemBinding] = {}
        for name, conn_id in self.systems.items():
            find = partial(self._system_connection, name, conn_id)
            bindings[name] = binding_of(name, conn_id, find(conn_id), find)
        return bindings

    def _system_connection(self, name: str, conn_id: str, named: str) -> Any:
        """Return the connection that binds a system, or the one that it names to open a store.

        One that is not there is named with the type that it should have.
        """
        if named != conn_id:
            return self._store_connection(named)
        try:
            return self.get_connection(conn_id)
        except AirflowNotFoundException:
            types = types_of(self._declared_kind(name))
            near = candidate_ids([self.conn_id, *self.systems.values(), *self._existing([name, f"{name}_default"])])
            in_words = "" if types else SUPPORTED
            raise not_defined(conn_id, types or types_of("files"), said=in_words, binds=name, candidates=near) from None

    def _source_options(self, conn_id: str | None) -> dict[str, str]:
        """Return the options of the database of a connection; none without one."""
        return source_options(conn_id, self._connection(conn_id, SOURCE_TYPES)) if conn_id else {}

    def _declared_kind(self, name: str) -> str | None:
        """Return the kind of a system that the application declares, where this hook knows of one."""
        if not self.application:
            return None
        try:
            declared = load_application(self.application).spec({}).systems.get(name)
        except Exception:  # whoever plans says what is wrong with it
            return None
        return declared.kind if declared is not None else KINDS_OF_NAMES.get(name)

    def _existing(self, conn_ids: Sequence[str]) -> Iterator[str]:
        """Yield those of a few connections that are there."""
        for conn_id in conn_ids:
            with suppress(Exception):  # backends of secrets raise what they like
                self.get_connection(conn_id)
                yield conn_id

    def spark_place(self) -> SparkPlace:
        """Return the Spark master of the Spark connection, and how it is reached; without one, this machine."""
        spark_conn_id = str(self._extra().get("spark_conn_id") or "")
        if not spark_conn_id:
            return SparkPlace()
        # The Spark provider would take one that is not there for YARN.
        connection = self._connection(spark_conn_id, (SUBMIT_TYPES[0], CONNECT_TYPE))
        start_seconds = configured_number("driver_start_timeout", 600.0, "seconds")
        return spark_place(spark_conn_id, connection, start_seconds)

    def secrets(self) -> list[object]:
        """Return the secrets of the connections of systems and root, which no text may show."""
        secrets: list[object] = [bound.options[name] for bound in self.bindings().values() for name in bound.secret]
        return [*secrets, *(self.access.options[name] for name in self.access.secret)]

    def test_connection(self) -> tuple[bool, str]:
        """Return whether root and Spark can be reached, and a text; for the button of the connection form."""
        try:
            from airflow_samza.launch.launcher import try_place
            from airflow_samza.systems.filesystems.object_store.probe import check_store

            self.get_conn()
            warnings = check_store(self.files)
            place = self.spark_place()
            place_text = try_place(place.master, place.submit, self._settings(place), self._runner_python(), place.conf)
            return True, " ".join([f"The root can be used, and {place_text}", *warnings])
        except (SamzaError, OSError) as error:
            return False, str(error)

    def _owner(self, place: SparkPlace) -> str:
        """Return the only user of the stage runners that this hook starts: this process, where they end with it.

        Else nobody in particular.
        """
        if runner_outlives(self.conn_id, self._connection(self.conn_id), self.executor, place.in_cluster):
            return ""
        return f"{liveness.place()}/{os.getpid()}"

    def reject_short_lived(self, task_id: str, executor: str | None = None) -> None:
        """Reject deferring a task whose stage runner would end with it.

        :param task_id: The task.
        :param executor: The executor of that task.
        """
        connection, here = self._connection(self.conn_id), executor == self.executor
        reject_short_lived(task_id, self.conn_id, connection, executor, self.spark_place().in_cluster, here=here)

    def reject_own_disk(self) -> None:
        """Reject a root on the disk of a container that ends with the task."""
        why = why_it_ends(self.conn_id, self._connection(self.conn_id), self.executor)
        if why is not None:
            reject_own_disk(self.conn_id, self.root, why)

    def source_url(self, source_conn_id: str | None) -> str:
        """Return the URL of the database of a connection, which may hold a password; empty without a connection.

        :param source_conn_id: The connection.
        """
        return self._source_options(source_conn_id).get("url", "")

    @property
    def keep(self) -> Keep:
        """Return the number of runs that are kept, and the days: ``[samza] keep_runs`` and ``keep_runs_days``."""
        usual = Keep()
        return Keep(
            configured_number("keep_runs", usual.runs, "runs", may_be_0=True),
            configured_number("keep_runs_days", usual.days, "days", may_be_0=True),
        )

    def last_lines(self, log: str) -> list[str]:
        """Return the last lines of a stage runner's log, without secrets; none if the log is missing.

        :param log: The path of the log, from the root on.
        """
        from airflow_samza.runs.stages.runner_log import last_lines

        with suppress(SamzaError, OSError):
            return last_lines(self.files, log, self.secrets())
        return []
