"""Binding of systems: from a system's name, and what an environment binds it to, to the system itself.

Every process that opens systems does it here: faces, the plan step, stage runners and their workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError, RuntimeMissing, install
from airflow_samza.system_kinds import EMBEDDED, find_kind, kinds, traits_of
from airflow_samza.systems.system import System, SystemBinding

if TYPE_CHECKING:
    from airflow_samza.systems.log.system import LogSystem

UNDER_ROOT = SystemBinding(EMBEDDED)
"""The binding of the log under the root, which needs no settings."""


def bind_system(name: str, binding: SystemBinding, root: str) -> System:
    """Return the system that a name stands for in one environment.

    ``root`` is where a log without a root of its own lies. Each kind is loaded only when it is bound: its clients may
    be heavy, or not installed.
    """
    kind = find_kind(binding.kind)
    if kind is None:
        raise ConfigError(
            f"The system {name!r} is bound to the kind {binding.kind!r}, which is not known.",
            hint=f"{did_you_mean(binding.kind, kinds())}The kinds are {', '.join(kinds())}.",
            key=f"systems.{name}.kind",
            value=binding.kind,
        )
    try:
        system_class = kind.load()
    except ModuleNotFoundError as error:
        if kind.extra is None:
            raise
        raise RuntimeMissing(
            f"The system {name!r} of kind {binding.kind} needs {error.name}, which is not installed here.",
            hint=install(kind.extra),
            library=error.name,
        ) from error
    bound: System = system_class(name, binding, root)
    return bound


def is_log(binding: SystemBinding) -> bool:
    """Return whether a binding has topics of ours, with records under a root: commands show, retention sweeps them."""
    return binding.kind == EMBEDDED or traits_of(binding.kind).own_topics


def log_under(root: str) -> LogSystem:
    """Return the log under a root."""
    return bind_log(EMBEDDED, UNDER_ROOT, root)


def bind_log(name: str, binding: SystemBinding, root: str) -> LogSystem:
    """Return the log that a binding stands for; of brokers, their topics between stages."""
    if traits_of(binding.kind).own_topics:
        between = log_of(bind_system(name, binding, root), own=True)
        assert between is not None
        return between
    from airflow_samza.systems.log.system import LogSystem

    return LogSystem(name, binding, root)


def log_of(system: System | None, *, own: bool) -> LogSystem | None:
    """Return the log that a system is, or that its brokers have for a run's ``own`` topics; None of other systems."""
    from airflow_samza.systems.log.system import LogSystem

    if isinstance(system, LogSystem):
        return system
    between: LogSystem | None = getattr(system, "own_topics", None) if own else None
    return between
