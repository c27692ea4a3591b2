"""Cells of the matrix: an act, what follows it, and a way in; and the verdict on each.

A cell begins with the first run of an application, by one way in. Then somebody changes something (the act), and does
something next. The cell is *equal* if the outputs then hold what a run from scratch in an empty root gives, *rejected*
if an error says so and the act that its hint names leads there. Anything else is wrong.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from airflow_samza.application.loader import load_application
from airflow_samza.errors import SamzaError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.planner.planner import plan_shape
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.stage_state import SUCCEEDED, StageHandle
from airflow_samza.systems.system import SystemBinding
from tests.support.acts import ways
from tests.support.acts.edits import ACTS, CALLABLE, NOTHING, PUSH
from tests.support.acts.ground import Ground, keep
from tests.support.acts.machine import Fault, Machine, Seat
from tests.support.acts.model import expected, place_of
from tests.support.acts.sketches import CALLABLES, DAY_BEFORE, LOG, Sketch, sketch_of
from tests.support.acts.ways import ANOTHER, CLEAR, CLEAR_BELOW, MOVED, OTHER_WAY, RESUME, RETRY, WAYS, State, Told, Way
from tests.support.failpoints import PLACES

EQUAL, REJECTED, WRONG, LEFT_OUT = "equal", "rejected", "wrong", "left out"

FAILPOINTS = tuple(place for place in PLACES if place not in ("task-before-state", "after-epoch"))

HINTS = 2
"""The most hints that somebody follows: of a run that is planned anew, and of a Dag file that is corrected."""

EDITS = 6
"""The most edits that are drawn until one of them changes rows."""

TELLING = ("edit an operator", CALLABLE, "change a key", "change a window", PUSH)
"""Acts that should change the rows: a cell in which all rows stay can hide that the former code ran."""

Outputs = dict[str, Counter[str]]


@dataclass(frozen=True)
class Cell:
    """A cell, of the application of a seed."""

    seed: int
    act: str
    then: str
    way: str

    def __str__(self) -> str:
        return f"{self.act} | {self.then} | {self.way} | seed {self.seed}"


@dataclass(frozen=True)
class Verdict:
    """The verdict on a cell, and what led to it."""

    cell: Cell
    outcome: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.outcome}: {self.cell}: {self.why}"


@dataclass(frozen=True)
class Base:
    """A first run, as it was left: the state, the disk, the runners that live, and what happened."""

    sketch: Sketch
    state: State
    kept: Path
    seats: list[Seat]
    told: Told
    failed_by: str = ""


@dataclass
class Matrix:
    """Cells on one machine, in a folder of its own."""

    folder: Path
    machine: Machine = field(init=False)
    _scratch: dict[tuple[str, ...], Outputs | Told] = field(default_factory=dict)
    _bases: dict[tuple[int, str, bool], Base] = field(default_factory=dict)
    scratch_runs: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        here = self.folder / "here"
        here.mkdir(exist_ok=True)
        self.machine = Machine(here)
        self.ground = Ground(here)

    @contextmanager
    def ready(self) -> Iterator[Matrix]:
        """Take the machine."""
        with self.machine.running(), ways.connected(self.machine):
            yield self

    def check(self, cell: Cell) -> Verdict:
        """Return the verdict on a cell."""
        if not applies(cell):
            return Verdict(cell, LEFT_OUT)
        rng = random.Random(str(cell))
        kind = next(kind for kind in WAYS if kind.name == cell.way)
        way, then, first = kind(self.machine), cell.then, sketch_of(cell.seed)
        changed = _telling(cell.act, first, rng)
        fails = then == RETRY or (then == RESUME and rng.random() < 0.5)
        if then == MOVED:
            changed = replace(changed, module="acts_moved")
            then = rng.choice([name for name in kind.nexts if name not in (MOVED, OTHER_WAY)])
            fails = then == RETRY
            if then == ANOTHER and not first.has_interval:
                then = RESUME
        strict = self.scratch(changed)
        if isinstance(strict, Told):
            return Verdict(cell, LEFT_OUT, f"is rejected from scratch: {strict.sentence}")
        base = self.base(first, kind, fails=fails)
        if not base.told.is_fine and not fails:
            return Verdict(cell, WRONG, f"the first run fails: {base.told.sentence} {base.told.hint}")
        state = self._bring_back(base)
        if isinstance(way, ways.HandWay) and rng.random() < 0.5:
            state.extra["keeps file"] = True
        self.machine.write(changed.module, changed.source())
        if cell.act == PUSH:
            self.ground.push(changed.pushes)
        self.machine.arm(None)
        if then != OTHER_WAY:
            try:
                told = way.go_on(state, then, changed, rng)
            except Exception as error:  # the Dag file cannot be read any more
                told = Told.of(error)
            return self._judge(cell, then, base, state, way, changed, told)
        other = rng.choice([kind for kind in WAYS if kind.name != way.name])(self.machine)
        state, told = other.begin(changed, "other")
        return self._judge(cell, other.name, base, state, other, changed, told)

    # -- judging -------------------------------------------------------------------------------------------------------

    def _judge(self, cell: Cell, then: str, base: Base, state: State, way: Way, changed: Sketch, told: Told) -> Verdict:
        said = f"{then} " * (then != cell.then) + f"{state.extra or ''} {base.failed_by}"
        if told.kind == "n/a":
            return Verdict(cell, LEFT_OUT, told.sentence)
        if told.is_crash:
            return Verdict(cell, WRONG, f"{said} crashes: {told.sentence}")
        if told.is_fine:
            why = self._compare(self._may_be(cell, then, base, state, changed))
            return Verdict(cell, WRONG if why else EQUAL, f"{said} {why}")
        what = f"{said} {told.kind}: {told.sentence} | {told.hint}"
        if cell.act in (NOTHING, CALLABLE, PUSH) and cell.then != MOVED:
            return Verdict(cell, WRONG, f"must not be rejected: {what}")
        for _ in range(HINTS):
            self.machine.arm(None)
            if "another topic" in told.hint:
                changed = _elsewhere(changed)
                self.machine.write(changed.module, changed.source())
                helped: Told | None = way.plan_anew(state, changed)
            else:
                helped = way.help(state, told, changed)
            if helped is None:
                return Verdict(cell, WRONG, f"the hint names no act that helps: {what}")
            if helped.is_fine:
                break
            what, told = f"{what} … {helped.sentence} | {helped.hint}", helped
        else:
            return Verdict(cell, WRONG, f"the acts of the hints do not help: {what}")
        state.reruns, state.replans = None, True
        why = self._compare([self._with_day_before(base, changed, self._outputs(changed))])
        return Verdict(cell, WRONG if why else REJECTED, f"{f'after the act of the hint {why}: ' if why else ''}{what}")

    def _may_be(self, cell: Cell, then: str, base: Base, state: State, changed: Sketch) -> list[Outputs]:
        """Return what the outputs may hold: one thing, unless a run that goes on may keep a function's former body."""
        if cell.act == PUSH and not state.replans:
            changed = replace(changed, pushes=base.sketch.pushes)
        new = self._outputs(changed)
        found = [new]
        if cell.act == CALLABLE and then in (RETRY, RESUME, CLEAR, CLEAR_BELOW) and not state.replans:
            found = self._with_kept_stages(then, base, state, changed, new)
        return [self._with_day_before(base, changed, outputs) for outputs in found]

    def _with_kept_stages(self, then: str, base: Base, state: State, changed: Sketch, new: Outputs) -> list[Outputs]:
        """Return the outputs where stages that do not run again keep what the former function has made."""
        former = replace(base.sketch, faulty="", module=changed.module)
        old = self._outputs(former)
        stages = {stage.stage_id: stage for stage in plan_shape(load_application(changed.reference).spec({})).stages}
        edited = next(node for node in changed.nodes if node != former.node(node.name))
        home = next(stage_id for stage_id, stage in stages.items() if changed.sources(edited) & set(stage.inputs))
        reruns = state.reruns if state.reruns is not None else set(stages) - set(state.done)

        def is_new(stage_id: str) -> bool:
            if stage_id not in reruns:
                return False
            return stage_id == home or any(is_new(above) for above in stages[stage_id].upstream if above != stage_id)

        mixed: Outputs = {}
        for stage_id, stage in stages.items():
            for node in changed.of_kind("output"):
                if node.args["id"] in stage.outputs:
                    mixed[place_of(node)] = (new if is_new(stage_id) else old)[place_of(node)]
        return [mixed, old] if then in (RETRY, RESUME) and home in reruns else [mixed]

    def _compare(self, may_be: list[Outputs]) -> str:
        """Return how the outputs differ from the nearest of what they may be; nothing where they do not."""
        found = self.ground.outputs(set(may_be[0]))
        told = [_difference(wanted, found) for wanted in may_be]
        return "" if "" in told else min(told, key=len)

    def _outputs(self, sketch: Sketch) -> Outputs:
        found = self.scratch(sketch)
        assert not isinstance(found, Told), found
        return found

    def _with_day_before(self, base: Base, changed: Sketch, outputs: Outputs) -> Outputs:
        if not changed.has_day_before:
            return outputs
        former = self.scratch(replace(base.sketch, faulty=""), DAY_BEFORE)
        assert not isinstance(former, Told), former
        return {place: rows + former.get(place, Counter()) for place, rows in outputs.items()}

    # -- runs ----------------------------------------------------------------------------------------------------------

    def scratch(self, sketch: Sketch, interval: tuple[str, str] | None = None) -> Outputs | Told:
        """Return the outputs of a run in an empty root, which are checked with the model; or why it is rejected."""
        key = (
            str(sketch.seed),
            sketch.source(),
            repr(sorted(sketch.given.items())),
            repr(interval),
            str(sketch.pushes),
        )
        if key not in self._scratch:
            self._scratch[key] = self._run_scratch(sketch, interval)
        return self._scratch[key]

    def _run_scratch(self, sketch: Sketch, interval: tuple[str, str] | None) -> Outputs | Told:
        self.scratch_runs += 1
        aside = Machine(self.folder / "scratch")
        aside.folder.mkdir(exist_ok=True)
        ground = Ground(aside.folder)
        ground.lay(sketch)
        with aside.running():
            aside.write(sketch.module, sketch.source())
            aside.forget()
            runtime = SparkRuntime(str(aside.root), {"lake": SystemBinding("files", {"root": str(aside.lake)})})
            try:
                runtime.run_application(ways.request_of(sketch, "scratch", interval=interval))
            except SamzaError as error:
                return Told.of(error)
        wanted = expected(sketch, interval or sketch.interval, sketch.pushes)
        found = ground.outputs(set(wanted))
        assert found == wanted, f"seed {sketch.seed}: {_difference(wanted, found)}\n{sketch.source()}"
        return found

    def base(self, sketch: Sketch, kind: type[Way], *, fails: bool) -> Base:
        """Return the first run by a way in: one that succeeds, or one that fails in some stage."""
        key = (sketch.seed, kind.name, fails)
        if key not in self._bases:
            if self._bases and next(iter(self._bases))[0] != sketch.seed:
                self._bases.clear()
                self._scratch.clear()
            self._bases[key] = self._failing(sketch, kind) if fails else self._first(sketch, kind, None)
        return self._bases[key]

    def _failing(self, sketch: Sketch, kind: type[Way]) -> Base:
        """Return a first run that fails: because of a mistake in a function, or because a runner dies."""
        rng = random.Random(f"{sketch.seed} {kind.name}")
        nodes = sketch.of_kind(*CALLABLES)
        if nodes and not getattr(kind, "together", False) and rng.random() < 0.5:
            faulty = replace(sketch, faulty=rng.choice(nodes).name)
            base = self._first(faulty, kind, None)
            if not base.told.is_fine:
                return base
        self.machine.write(sketch.module, sketch.source())
        shape = plan_shape(load_application(sketch.reference).spec({}))
        for _ in range(20):
            fault = Fault(rng.choice(shape.stages).stage_id, rng.choice(FAILPOINTS), rng.choice([1, 1, 2]))
            base = self._first(sketch, kind, fault)
            if not base.told.is_fine:
                return base
        raise AssertionError("no fault strikes")

    def _first(self, sketch: Sketch, kind: type[Way], fault: Fault | None) -> Base:
        machine = self.machine
        machine.stop()
        machine.forget()
        self.ground.lay(sketch)
        machine.arm(None)
        way = kind(machine)
        if sketch.has_day_before:
            sound = replace(sketch, faulty="")
            machine.write(sound.module, sound.source())
            _, told = way.begin(sound, "before", DAY_BEFORE)
            assert told.is_fine, told
        machine.write(sketch.module, sketch.source())
        machine.arm(fault)
        state, told = way.begin(sketch)
        machine.arm(None)
        kept = self.folder / f"base-{len(self._bases)}"
        keep(machine.folder, kept)
        state.done = self._done(state)
        failed_by = "" if told.is_fine else f"[{fault or f'a mistake in {sketch.faulty}'}]"
        return Base(sketch, state, kept, machine.seats(), told, failed_by)

    def _done(self, state: State) -> tuple[str, ...]:
        """Return the stages of a run that have succeeded."""
        runtime = SparkRuntime(str(self.machine.root))
        try:
            run = runtime.load_plan("acts", state.run_id)
        except SamzaError:
            return ()
        handles = [
            StageHandle(run.application, run.run_id, stage.stage_id, Generation(run.generation, 1))
            for stage in run.plan.stages
        ]
        return tuple(handle.stage_id for handle in handles if runtime.status(handle).state == SUCCEEDED)

    def _bring_back(self, base: Base) -> State:
        machine = self.machine
        machine.stop()
        machine.forget()
        keep(base.kept, machine.folder)
        machine.sit(base.seats)
        return copy.deepcopy(base.state)


def applies(cell: Cell) -> bool:
    """Return whether there is something to do in a cell: its application has what the act changes, its way the next.

    Two runs without an interval are of different data, so none replaces what the other has written.
    """
    first, kind = sketch_of(cell.seed), next(kind for kind in WAYS if kind.name == cell.way)
    if cell.then not in kind.nexts or (cell.then in (ANOTHER, OTHER_WAY) and not first.has_interval):
        return False
    return ACTS[cell.act](first, random.Random(str(cell))) is not None


def _telling(act: str, sketch: Sketch, rng: random.Random) -> Sketch:
    """Return the sketch after an act: after one that other rows come from, if there is such a one."""
    former = expected(sketch, sketch.interval, sketch.pushes)
    found = sketch
    for _ in range(EDITS):
        changed = ACTS[act](sketch, rng)
        if changed is None:
            continue
        found = changed
        if act not in TELLING or expected(changed, changed.interval, changed.pushes) != former:
            break
    return found


def _elsewhere(sketch: Sketch) -> Sketch:
    """Return the sketch with the outputs in the log written to other topics."""
    for node in sketch.of_kind("output"):
        if node.args["system"] == LOG:
            sketch = sketch.with_node(node.but(id=f"new-{node.args['id']}", topic=f"new-{node.args['id']}"))
    return sketch


def _difference(wanted: Outputs, found: Outputs) -> str:
    told = []
    for place, rows in wanted.items():
        missing, more = rows - found[place], found[place] - rows
        if missing or more:
            some = "; ".join(
                f"{sign}{text}" for sign, part in (("-", missing), ("+", more)) for text in sorted(part)[:2]
            )
            told.append(f"{place} has {found[place].total()} rows for {rows.total()} ({some})")
    return ", ".join(told)
