"""The placement of tasks: the executor that runs each, and the hosts with a copy of its state (rule S9). No Spark.

Sessions of Spark and the jobs of stages ask it where a task is to run. Decision 46.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_samza.grouping import grouped


@dataclass(frozen=True)
class Executor:
    """One of Spark's executors, by Spark's names."""

    executor_id: str
    host: str

    @property
    def location(self) -> str:
        """The location in the form in which Spark is asked to prefer it."""
        return f"executor_{self.host}_{self.executor_id}"


@dataclass(frozen=True)
class Place:
    """The executor to which a task belongs, and further hosts that hold, or are to hold, a copy of its state."""

    executor: Executor
    standbys: tuple[str, ...] = ()

    @property
    def preferred(self) -> list[str]:
        """The locations that Spark is asked to prefer: first this executor, and when it is gone, a host with a copy."""
        return [self.executor.location, *self.standbys]


class Placement:
    """The places of a stage's tasks. ``copies`` is how many hosts hold a task's state in all (the replication factor).

    A task stays where it is as long as its executor lives. Else it goes to another executor of the same host, to a host
    with a copy, or to where there is least to do. When executors come, as many tasks move as have to, so that none has
    two more than another.
    """

    def __init__(self, tasks: int, copies: int = 1) -> None:
        self._tasks = range(tasks)
        self._copies = copies
        self.places: dict[int, Place] = {}
        """The place of each task; none before the first executor was seen."""
        self._executors: frozenset[Executor] = frozenset()

    def update(self, executors: Iterable[Executor]) -> bool:
        """Note which executors live now; return whether the place of any task has changed."""
        living = frozenset(executors)
        if living == self._executors or not living:
            return False
        self._executors = living
        former = dict(self.places)
        homes = self._homes(sorted(living, key=lambda executor: (executor.host, executor.executor_id)), former)
        self.places = {task: Place(home, self._standbys(task, home, homes, former)) for task, home in homes.items()}
        return self.places != former

    def standbys(self) -> dict[str, list[int]]:
        """Return the tasks of which each host keeps a copy for the day that their own host is lost."""
        return grouped((host, task) for task, place in self.places.items() for host in place.standbys)

    def executor_on(self, host: str) -> Executor:
        """Return an executor of a host on which one lives."""
        return min(
            (executor for executor in self._executors if executor.host == host),
            key=lambda executor: executor.executor_id,
        )

    def _homes(self, living: Sequence[Executor], former: Mapping[int, Place]) -> dict[int, Executor]:
        homes = {task: place.executor for task, place in former.items() if place.executor in living}
        load = Counter(dict.fromkeys(living, 0))
        load.update(homes.values())
        for task in self._tasks:
            if task not in homes:
                homes[task] = self._new_home(former.get(task), living, load)
                load[homes[task]] += 1
        while True:
            busiest = max(living, key=lambda executor: load[executor])
            idlest = min(living, key=lambda executor: load[executor])
            if load[busiest] - load[idlest] < 2:
                return homes
            movable = [task for task in self._tasks if homes[task] == busiest]
            warm = [task for task in movable if task in former and idlest.host in _warm_hosts(former[task])]
            # A task that lost its host has just come to a copy, and is not sent on to a host that has none.
            settled = [
                task
                for task in movable
                if task in former and former[task].executor not in living and busiest.host != idlest.host
            ]
            choice = warm or [task for task in movable if task not in settled]
            if not choice:
                return homes
            homes[choice[-1]] = idlest
            load[busiest] -= 1
            load[idlest] += 1

    def _new_home(self, former: Place | None, living: Sequence[Executor], load: Mapping[Executor, int]) -> Executor:
        if former is not None:
            for host in _warm_hosts(former):
                near = [executor for executor in living if executor.host == host]
                if near:
                    return min(near, key=lambda executor: load[executor])
        return min(living, key=lambda executor: load[executor])

    def _standbys(
        self, task: int, home: Executor, homes: Mapping[int, Executor], former: Mapping[int, Place]
    ) -> tuple[str, ...]:
        """Other hosts for the copies: those that have one already, then each task's next ones in turn."""
        others = sorted({executor.host for executor in self._executors} - {home.host})
        if self._copies < 2 or not others:
            return ()
        warm = [host for host in _warm_hosts(former[task]) if host in others] if task in former else []
        turned = [others[(task + place) % len(others)] for place in range(len(others))]
        return tuple(dict.fromkeys([*warm, *turned]))[: self._copies - 1]


def _warm_hosts(place: Place) -> tuple[str, ...]:
    """Return the hosts that hold state of a task that had this place, the best first."""
    return (place.executor.host, *place.standbys)
