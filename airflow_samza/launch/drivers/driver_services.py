"""The port for services that run drivers: SparkApplications of an operator, EMR Serverless, Dataproc, Databricks.

A master URL selects a service by its scheme: ``sparkapplication://etl``. Ours are in :data:`BUILT_IN`; an installed
package adds one by an entry point of the group :data:`GROUP`, whose name is the scheme and whose object is called with
the master URL and returns a :class:`DriverService`. The page docs/how-to-add/driver-service.md has an example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name

from airflow_samza.errors import ConfigError
from airflow_samza.launch.starts import StartState
from airflow_samza.system_kinds import plugged

GROUP = "airflow_samza.driver_services"

SPARK_APPLICATION = "sparkapplication"

BUILT_IN: Mapping[str, str] = {SPARK_APPLICATION: "airflow_samza.launch.drivers.spark_application:SparkApplications"}


@dataclass(frozen=True)
class Driver:
    """A driver that a service is to run, once: as often as it is started again, it would find no settings.

    ``program`` is a Python program, a URL or a path that all hosts have, with its ``arguments``; ``conf`` are settings
    of Spark. ``environment`` holds a secret of this one driver, and nothing else may show it. ``name`` is for people,
    ``once`` a text that no other driver has.
    """

    name: str
    once: str
    program: str
    arguments: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


class RunningDriver(ABC):
    """A driver that a service was asked to run."""

    @property
    @abstractmethod
    def log(self) -> str:
        """The place of what it prints, as the rest of a sentence that begins with "Its log is"."""

    @abstractmethod
    def state(self) -> StartState:
        """Return its state; asked several times a second, so a service that is far looks less often.

        Called until the driver has claimed its place under the root; from then on its records say how it is.
        """

    @abstractmethod
    def stop(self) -> None:
        """End it, and delete what it leaves; nothing happens if it has ended, or is not there."""


class DriverService(ABC):
    """A service that runs drivers."""

    @abstractmethod
    def check(self) -> None:
        """Reject, by a SamzaError, what would fail later and less clearly: no client, no access."""

    @abstractmethod
    def start(self, driver: Driver) -> RunningDriver:
        """Ask for a driver and return at once; a SamzaError where the service rejects it."""


def is_service(scheme: str) -> bool:
    """Return whether a master URL of this scheme selects a service."""
    return scheme in BUILT_IN or scheme in plugged(GROUP)


def driver_service(url: str) -> DriverService:
    """Return the service that a master URL selects."""
    scheme = url.partition("://")[0]
    if not is_service(scheme):
        raise ConfigError(
            f"{scheme!r} is no service that runs drivers.",
            hint=f"Install the package that adds it by an entry point of the group {GROUP}.",
            key="master",
            value=scheme,
        )
    made: Callable[[str], DriverService]
    made = resolve_name(BUILT_IN[scheme]) if scheme in BUILT_IN else plugged(GROUP)[scheme].load()
    return made(url)
