"""Random runs of two applications over a few days, with deaths, retries and clears, leave what a plain model says."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_samza.errors import TopicError
from airflow_samza.runs import finish
from airflow_samza.runs.records.run_plan import RunPlan
from tests.support.budgets import extended_but
from tests.support.slot_runs import DELTA, FILES, LOG, OTHERS, TABLE, Outputs

ACTS = 14
PLACES = ("before-commit", "after-commit", "after-first-publish", "before-result", "after-result")


class Crash(BaseException):
    """The process died here."""


@dataclass
class Deaths:
    """The place at which the process dies next; "" for none."""

    place: str = ""

    def reach(self, name: str) -> None:
        if name == self.place:
            self.place = ""
            raise Crash(name)


@dataclass
class Run:
    """A run that was planned: what it has read, and how far its newest generation has come."""

    application: str
    day: int
    content: tuple[int, ...]
    plan: RunPlan
    generation: int = 1
    published: bool = False
    over: bool = False


@dataclass
class World:
    """The runs, and the model: by day the run that holds the slot, with its generation."""

    outputs: Outputs
    applications: tuple[str, str]
    deaths: Deaths
    contents: dict[int, tuple[int, ...]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    holders: dict[int, tuple[Run, int, tuple[int, ...]]] = field(default_factory=dict)
    count: int = 0

    @property
    def rows(self) -> list[int]:
        """The rows that readers find, by the model."""
        return sorted(row for _, _, rows in self.holders.values() for row in rows)

    def edit(self, day: int) -> None:
        """Write the input of a day anew."""
        self.count += 1
        self.contents[day] = (self.count * 10, self.count * 10 + 1)
        self.outputs.day(day, *self.contents[day])

    def begin(self, application: str, day: int, place: str) -> None:
        """Plan a new run of a day, and run it."""
        self.count += 1
        held = self.holders.get(day)
        if held is not None and held[0].application != application:
            with pytest.raises(TopicError, match=repr(held[0].plan.run_id)):
                self.outputs.plan(application, f"run-{self.count}", day)
            return
        plan = self.outputs.plan(application, f"run-{self.count}", day)
        said = " ".join(text for texts in plan.notes.values() for text in texts.values())
        assert ("replaces what the run" in said) == (held is not None)
        assert held is None or repr(held[0].plan.run_id) in said
        run = Run(application, day, self.contents[day], plan)
        self.runs.append(run)
        self.work(run, place)

    def plan_anew(self, run: Run, place: str) -> None:
        """Plan a run again, from its beginning, and run it."""
        held = self.holders.get(run.day)
        number = run.plan.generation + 1
        if held is not None and held[0].application != run.application:
            with pytest.raises(TopicError, match=repr(held[0].plan.run_id)):
                self.outputs.plan(run.application, run.plan.run_id, run.day, generation=number)
            return
        run.plan = self.outputs.plan(run.application, run.plan.run_id, run.day, generation=number)
        run.generation, run.published, run.over = 1, False, False
        run.content = self.contents[run.day]
        self.work(run, place)

    def clear(self, run: Run, place: str) -> None:
        """Clear the stage of a run, whose input is as it was planned."""
        run.generation += 1
        run.published = run.over = False
        self.work(run, place)

    def work(self, run: Run, place: str) -> None:
        """Run the newest generation of a run, or go on with it; the process may die at a place."""
        held = self.holders.get(run.day)
        mine = held is not None and held[0] is run and held[1] == (run.plan.generation, run.generation)  # type: ignore[comparison-overlap]
        if run.over:
            expected = "done"
        elif run.published and not mine:
            expected = "replaced"
        elif held is not None and held[0].application != run.application:
            expected = "of others"
        else:
            expected = "done"
        self.deaths.place = place
        try:
            self.outputs.here.stages(run.plan, generation=run.generation)
            found = "done"
        except TopicError as error:
            found = "replaced" if "has replaced" in error.sentence else "of others"
        except Crash:
            found = "died"
        finally:
            self.deaths.place = ""
        begins = not run.over and expected == "done"
        if found == "died":
            reached = PLACES.index(place) > PLACES.index("after-commit")
            assert expected == "done" or not reached, (place, expected)
            begins = begins and reached
            run.over = run.over or (place == "after-result" and begins)
        else:
            assert found == expected, (run.plan.run_id, place)
            run.over = run.over or found == "done"
        if begins:
            run.published = True
            self.holders[run.day] = (run, (run.plan.generation, run.generation), run.content)  # type: ignore[assignment]


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> Deaths:
    found = Deaths()
    monkeypatch.setattr(finish, "reach", found.reach)
    return found


def play(folder: Path, deaths: Deaths, kind: str, seed: int) -> None:
    """Play random acts, and compare after each."""
    chance = random.Random(seed)
    application = {"files": FILES, "log": LOG, "table": TABLE, "delta": DELTA}[kind]
    applications = (application, OTHERS[application])
    world = World(Outputs(folder), applications, deaths)
    for day in (1, 2, 3):
        world.edit(day)
    for number in range(ACTS):
        place = chance.choice(("", "", *PLACES))
        act = chance.choice(("begin", "begin", "begin", "edit", "clear", "plan anew", "go on", "go on"))
        run = chance.choice(world.runs) if world.runs else None
        told = (seed, number, act, place, run.plan.run_id if run is not None else "")
        if act == "edit":
            world.edit(chance.choice((1, 2, 3)))
        elif act == "begin" or run is None:
            world.begin(chance.choice((applications[0], *applications)), chance.choice((1, 1, 2, 3)), place)
        elif act == "plan anew":
            world.plan_anew(run, place)
        elif act == "go on":
            world.work(run, place)
        elif run.content == world.contents[run.day]:
            world.clear(run, place)
        found = world.outputs.rows(applications[0]) if world.holders else []
        assert found == world.rows, told
        if kind == "files" and world.holders:
            assert set(world.outputs.found_by_others()) >= set(world.rows), told


@pytest.mark.parametrize("seed", extended_but([0], range(2)))
@pytest.mark.parametrize("kind", extended_but(["files", "log", "table"], ["files", "log", "table", "delta"]))
@pytest.mark.few(1)
def test_random_runs_leave_what_the_model_says(tmp_path: Path, deaths: Deaths, kind: str, seed: int) -> None:
    play(tmp_path, deaths, kind, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 140))
@pytest.mark.parametrize("kind", ["files", "log", "table", "delta"])
def test_many_random_runs_leave_what_the_model_says(tmp_path: Path, deaths: Deaths, kind: str, seed: int) -> None:
    play(tmp_path, deaths, kind, seed)
