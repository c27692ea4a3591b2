"""From a system's name and what an environment binds it to, the system itself."""

from __future__ import annotations

from airflow_samza.application.refusals import did_you_mean
from airflow_samza.errors import ConfigError
from airflow_samza.systems.system import System, SystemBinding

KINDS = ("memory", "log", "files", "spark")

EMBEDDED = "log"
"""The system that is always there, and the default one where nobody names another: the log under the root."""


def bind_system(name: str, binding: SystemBinding, root: str) -> System:
    """The system that a name stands for in one environment; ``root`` is where a log without a root of its own lies.

    Each kind is loaded only when it is bound: its clients may be heavy, or not installed.
    """
    if binding.kind == "memory":
        from airflow_samza.systems.memory.system import MemorySystem

        return MemorySystem(name, binding)
    if binding.kind == "log":
        from airflow_samza.systems.log.system import LogSystem

        return LogSystem(name, binding, root)
    if binding.kind == "files":
        from airflow_samza.systems.files.system import FilesSystem

        return FilesSystem(name, binding)
    if binding.kind == "spark":
        from airflow_samza.systems.spark.system import SparkSystem

        return SparkSystem(name, binding, root)
    raise ConfigError(
        f"The system {name!r} is bound to the kind {binding.kind!r}, which is not known.",
        hint=f"{did_you_mean(binding.kind, KINDS)}The kinds are {', '.join(KINDS)}.",
        key=f"systems.{name}.kind",
        value=binding.kind,
    )
