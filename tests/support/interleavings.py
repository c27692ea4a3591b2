"""All orders in which several actors can do their steps on one filesystem: a small model checker.

Each actor is ordinary code in a fiber of its own; before every step on the filesystem it waits to be let on. A run is
replayed from the start for every choice that was not tried yet. Two reductions lose no outcome: a step that touches
what no other actor ever touches (or that both only read) is taken at once, and a state that was met before (the files,
and what every actor has seen so far) is not gone on from again.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]

from airflow_samza.systems.filesystems.pace import FREE

Actor = Callable[["SteppedFilesystem"], Any]


class MemoryFilesystem:
    """A root as a dictionary; folders are what stands before the slashes."""

    root = "memory"
    pace = FREE
    renames_folders = True

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.files = dict(files or {})

    def location(self, path: str) -> str:
        return f"memory/{path}"

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        if path in self.files:
            return False
        self.files[path] = data
        return True

    def put(self, path: str, data: bytes) -> None:
        self.files[path] = data

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file", path)
        return self.files[path]

    def list(self, directory: str) -> list[str]:
        return sorted(
            {path[len(directory) + 1 :].partition("/")[0] for path in self.files if path.startswith(f"{directory}/")}
        )

    def exists(self, path: str) -> bool:
        return path in self.files or any(known.startswith(f"{path}/") for known in self.files)

    def rename(self, source: str, target: str) -> None:
        moved = {path: data for path, data in self.files.items() if path == source or path.startswith(f"{source}/")}
        if not moved:
            raise FileNotFoundError(2, "No such file", source)
        for path, data in moved.items():
            del self.files[path]
            self.files[target + path[len(source) :]] = data

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def delete_tree(self, directory: str) -> None:
        for path in [path for path in self.files if path == directory or path.startswith(f"{directory}/")]:
            del self.files[path]

    def delete_empty(self, directory: str) -> None:
        pass


_WRITES = {"put_if_absent", "put", "rename", "delete", "delete_tree"}

_FILE, _FOLDER = "file", "folder"

Place = tuple[str, str]


def _reads(operation: str, given: tuple[Any, ...]) -> set[Place]:
    """Facts on which the outcome of a step depends: contents of files, and listings of folders."""
    if operation == "list":
        return {(_FOLDER, given[0])}
    return {(_FILE, given[0])} if operation in ("read", "exists", "put_if_absent", "rename") else set()


def _writes(operation: str, given: tuple[Any, ...]) -> set[Place]:
    """Facts that a step may change."""
    if operation not in _WRITES:
        return set()
    found: set[Place] = set()
    for path in given[: 2 if operation == "rename" else 1]:
        found |= {(_FILE, path)} | {(_FOLDER, path[:place]) for place, letter in enumerate(path) if letter == "/"}
    return found


@dataclass
class _Step:
    operation: str
    given: tuple[Any, ...]


class SteppedFilesystem:
    """The filesystem as one actor sees it: each call waits until the schedule lets it on."""

    root = "memory"
    pace = FREE

    def __init__(self, run: _Run, name: str) -> None:
        self._run = run
        self._name = name

    def location(self, path: str) -> str:
        return f"memory/{path}"

    def __getattr__(self, operation: str) -> Any:
        def call(*given: Any, durable: bool = True) -> Any:  # no power fails here
            return self._run.step(self._name, _Step(operation, given))

        return call


@dataclass
class _Progress:
    """Position of an actor: the step that it waits with, and a digest of all that it has seen."""

    seen: Any
    fiber: greenlet
    waits_with: _Step | None = None
    result: Any = None
    error: BaseException | None = None
    is_over: bool = False


class _Run:
    """One schedule, from the start."""

    def __init__(
        self, start: Mapping[str, bytes], actors: Mapping[str, Actor], check: Callable[[MemoryFilesystem], None]
    ) -> None:
        self.files = MemoryFilesystem(start)
        self.check = check
        self.scheduler = getcurrent()
        self.is_over = False
        self.progress: dict[str, _Progress] = {}
        for name, actor in actors.items():
            self.progress[name] = _Progress(
                hashlib.sha1(name.encode()), greenlet(functools.partial(self._act, name, actor))
            )
        for name in actors:
            self.advance(name)

    def _act(self, name: str, actor: Actor) -> None:
        mine = self.progress[name]
        try:
            mine.result = actor(SteppedFilesystem(self, name))
        except Exception as error:
            mine.error = error
        mine.is_over = True
        mine.waits_with = None

    def step(self, name: str, step: _Step) -> Any:
        mine = self.progress[name]
        if self.is_over:
            raise GreenletExit
        mine.waits_with = step
        self.scheduler.switch()
        try:
            found = getattr(self.files, step.operation)(*step.given)
        except FileNotFoundError as error:
            mine.seen.update(b"missing")
            raise error
        mine.seen.update(repr((step.operation, found)).encode())
        if step.operation in _WRITES:
            self.check(self.files)
        return found

    def advance(self, name: str) -> None:
        """Lets an actor do its next step, up to the one after."""
        global acting
        acting = name
        self.progress[name].fiber.switch()

    def abandon(self) -> None:
        """Ends the actors where they are; what they do on their way out changes nothing."""
        self.is_over = True
        for progress in self.progress.values():
            if not progress.fiber.dead:
                progress.fiber.throw()

    def state(self) -> Any:
        return (
            hash(frozenset(self.files.files.items())),
            tuple((progress.seen.digest(), progress.is_over) for progress in self.progress.values()),
        )


acting = ""
"""The actor whose turn it is.

Names that are made at random in life are made of it, so that every run makes the same.
"""


@dataclass
class Explored:
    """Size of an exploration: schedules that were followed, and different states."""

    runs: int = 0
    states: int = 0


def explore(
    start: Mapping[str, bytes],
    actors: Mapping[str, Actor],
    check: Callable[[MemoryFilesystem], None],
    end: Callable[[MemoryFilesystem, Mapping[str, Any]], None],
    interruptions: int | None = None,
) -> Explored:
    """Follows every order of the actors' steps; ``check`` is called after every change, ``end`` with each outcome.

    ``end`` gets the results by actor: what it returned, or the exception that it ended with. ``interruptions``: only
    orders in which so many times at most an actor that could go on has to wait for another one (None: all).
    """
    touched = {name: _Touched() for name in actors}
    while True:  # until it is known what each actor touches
        known = sum(len(found.reads) + len(found.writes) for found in touched.values())
        explored = _explore(start, actors, check, end, touched, interruptions)
        if known == sum(len(found.reads) + len(found.writes) for found in touched.values()):
            return explored


@dataclass
class _Touched:
    """Facts that an actor reads and writes, in any of its runs."""

    reads: set[Place] = field(default_factory=set)
    writes: set[Place] = field(default_factory=set)


def _explore(
    start: Mapping[str, bytes],
    actors: Mapping[str, Actor],
    check: Callable[[MemoryFilesystem], None],
    end: Callable[[MemoryFilesystem, Mapping[str, Any]], None],
    touched: dict[str, _Touched],
    interruptions: int | None,
) -> Explored:
    explored = Explored()
    met: dict[Any, int] = {}
    stack: list[list[str]] = [[]]
    while stack:
        prefix = stack.pop()
        explored.runs += 1
        run = _Run(start, actors, check)
        taken: list[str] = []
        last, used = "", 0
        while True:
            waiting = [name for name, progress in run.progress.items() if not progress.is_over]
            if not waiting:
                end(run.files, {name: progress.error or progress.result for name, progress in run.progress.items()})
                break
            alone = next((name for name in waiting if _is_alone(name, run.progress[name].waits_with, touched)), None)
            if len(taken) < len(prefix):
                chosen = prefix[len(taken)]
            else:
                state = (run.state(), last)
                if met.get(state, used + 1) <= used:
                    break
                met[state] = used
                chosen = alone or (last if last in waiting else waiting[0])
                if alone is None and (last not in waiting or interruptions is None or used < interruptions):
                    stack += [[*taken, other] for other in waiting if other != chosen]
            if alone is None:
                used += int(last in waiting and chosen != last)
                last = chosen
            step = run.progress[chosen].waits_with
            assert step is not None
            touched[chosen].reads |= _reads(step.operation, step.given)
            touched[chosen].writes |= _writes(step.operation, step.given)
            taken.append(chosen)
            run.advance(chosen)
            failed = next((p.error for p in run.progress.values() if isinstance(p.error, AssertionError)), None)
            if failed is not None:
                raise AssertionError(f"{failed}\nafter: {_told(taken)}") from failed
        run.abandon()
    explored.states = len(met)
    return explored


def _is_alone(name: str, step: _Step | None, touched: Mapping[str, _Touched]) -> bool:
    """Return True if no other actor ever does anything of which the order with this step matters.

    Files of one folder may come in any order.
    """
    assert step is not None
    reads, writes = _reads(step.operation, step.given), _writes(step.operation, step.given)
    files = {place for place in writes if place[0] == _FILE}
    others = [found for other, found in touched.items() if other != name]
    return not any(reads & found.writes or writes & found.reads or files & found.writes for found in others)


def _told(taken: list[str]) -> str:
    """A schedule in a few words: who did how many steps in a row."""
    said: list[str] = []
    for name in taken:
        if said and said[-1].startswith(f"{name} "):
            said[-1] = f"{name} {int(said[-1].split()[1]) + 1}"
        else:
            said.append(f"{name} 1")
    return ", ".join(said)
