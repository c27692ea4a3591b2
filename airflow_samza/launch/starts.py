"""The port by which stage runners are started, whoever does it: their state until they claim their place, their end.

A process of this machine (:mod:`airflow_samza.launch.own_process`), spark-submit
(:mod:`airflow_samza.launch.drivers.submitted_driver`), or a service that runs drivers
(:mod:`airflow_samza.launch.drivers.driver_services`). The launcher waits for the claim, by these methods alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_samza.errors import StageFailed

if TYPE_CHECKING:
    from airflow_samza.runs.stages.stage_runners import RunnerFolder


@dataclass(frozen=True)
class StartState:
    """The state of a start.

    ``ended`` is how it has ended, as the rest of a sentence; empty: the runner may still come. ``gave_way``: another
    runner was quicker. ``waits_for`` is why it does not run yet, in the words of the place where it is to run. With a
    ``remedy`` it will not run as long as nobody does that.
    """

    ended: str = ""
    gave_way: bool = False
    waits_for: str = ""
    remedy: str = ""


class Started(ABC):
    """A stage runner that was started. ``patience`` are the seconds in which it has to claim its place."""

    patience: float
    is_here = True
    """True where it works on this host, whose disk then has to have room."""

    @abstractmethod
    def state(self) -> StartState:
        """Return its state now; this is asked many times a second."""

    @abstractmethod
    def claimed(self, runner: RunnerFolder) -> None:
        """Let go of a runner that has claimed its place: from now on its records say how it is."""

    @abstractmethod
    def stop(self) -> None:
        """End what was started: nobody waits for it any more."""

    @abstractmethod
    def failure(self, what: str, remedy: str = "") -> StageFailed:
        """Return the error of a runner that did not come, with what its log says and where that lies.

        ``what`` has happened; ``remedy`` is that of its last state.
        """
