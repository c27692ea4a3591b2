"""Acts of runs × acts of others × modes × kinds: an output has the rows of a plain model, or an error that this expects.

A sequence has three to five acts. Runs are planned, cleared, planned anew after an edit of the data or the code, take
the slot of another one, and name their outputs otherwise; others compact the table, change its columns and partitions,
append, delete and go back, between these acts or between a plan and its stages.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import SamzaError
from airflow_samza.prepare.kept_stages import keep_result
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import CODE
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.system import SystemBinding
from demo import lake_reader
from tests.support import table_places
from tests.support.budgets import share
from tests.support.iceberg_by_spark import spark_of_iceberg
from tests.support.runs_here import Here
from tests.support.slot_runs import days
from tests.support.spark_sources import spark_with_delta
from tests.support.table_acts_model import (
    ALLOWED,
    APPEND,
    REPLACE_PARTITIONS,
    REPLACE_TABLE,
    UPSERT,
    Model,
    State,
)
from tests.support.table_places import COLUMNS, Delta, Files, Iceberg, MappedDelta, Place, Values

MODES = ("replace", APPEND, REPLACE_PARTITIONS, REPLACE_TABLE)
WAYS = [
    *((kind, mode, column) for kind in (Iceberg, Delta) for mode in MODES for column in ("", "run")),
    *((MappedDelta, mode, "") for mode in MODES),
    *((kind, UPSERT, "") for kind in (Iceberg, Delta, MappedDelta)),
    *((Files, mode, "") for mode in MODES[:2]),
]
"""Kinds, modes, and the column of runs."""

OWN = ("rename", "remove", "second", "other", "clear", "anew", "again", "edit", "empty", "lacks")


@dataclass
class Run:
    """A run: its day, the rows that it reads, its outputs, and its newest plan with the number of its clears."""

    day: int
    rows: list[Values]
    outputs: dict[str, str]
    note: str = "note"
    plan: RunPlan | None = None
    plans: int = 0
    clears: int = 1
    since_plan: set[str] = field(default_factory=set)

    def written(self) -> dict[str, list[Values]]:
        """Return what each output gets."""
        edited = self.note != "note"
        rows = [(number, part, f"{note}!" if edited else note) for number, part, note in self.rows]
        keep = {"true": (0, 1), "id % 2 = 1": (1,), "id % 2 = 0": (0,)}
        return {name: [row for row in rows if row[0] % 2 in keep[where]] for name, where in self.outputs.items()}


class Player:
    """Plays a sequence of acts, and compares after each."""

    def __init__(self, folder: Path, way: tuple[type[Place], str, str], seed: int, place: Place | None = None) -> None:
        kind, mode, column = way
        self.chance = random.Random(f"{kind.__name__} {mode} {column} {seed}")
        self.place = place or kind(folder / "tables")
        self.folder, self.column, self.count = folder, column, 0
        self.model = Model(mode, self.chance.random() < 0.75, bool(column))
        self.split = kind is not Files and self.chance.random() < 0.5
        self.runs: dict[str, Run] = {}
        self.told: list[str] = [
            f"{kind.__name__}, {mode}, run_column={column!r}, seed {seed}, dated {self.model.dated}"
        ]
        self.rejected = Counter[str]()
        bindings = {"lake": SystemBinding("files", {"root": str(folder / "lake")}), "tables": self.place.binding}
        self.here = Here(folder / "root", bindings=bindings)
        (folder / "lake/in").mkdir(parents=True)

    def play(self, own: str, theirs: str) -> None:
        """Play a sequence that has an act of others before an act of runs, perhaps between its plan and its stages."""
        acts = self.place.acts
        self.begin(1)
        for _ in range(self.chance.randrange(3)):
            if self.chance.random() < 0.5:
                self.act(self.chance.choice(OWN))
            else:
                self.others(self.chance.choice(acts))
        within = self.chance.random() < 0.25
        if not within:
            self.others(theirs)
        self.act(own, theirs if within else "")
        if self.chance.random() < 0.5:
            self.act(self.chance.choice(OWN))
        assert Counter(self.place.scanned()) == self.model.state.values, self.told

    def others(self, act: str) -> None:
        """Others act."""
        self.told.append(f"others: {act}")
        rows: list[Values] = []
        back: State | None = None
        if act == "append":
            self.count += 1
            low = 0 if self.model.mode == UPSERT else 100
            rows = [(low + self.chance.randrange(1, 9), self.chance.choice(["p0", "p1", "p2"]), f"theirs-{self.count}")]
            self.place.append(rows)
        elif act == "restore":
            if not self.model.seen:
                return
            version, back = self.chance.choice(self.model.seen)
            self.place.restore(version)
        else:
            getattr(self.place, act.replace(" ", "_"))()
        self.model.acted(act, rows, back, columns=self.place.restores_columns)
        for run in self.runs.values():
            run.since_plan.add(act)
        self.compare()

    def begin(self, day: int) -> None:
        """Plan and run another run."""
        outputs = {"odd": "id % 2 = 1", "even": "id % 2 = 0"} if self.split else {"all": "true"}
        name = f"run-{len(self.runs)}"
        self.runs[name] = Run(day, self.rows(), outputs)
        self.model.slots[name] = day
        self.anew(name)

    def rows(self, parts: Sequence[str] = ("p0", "p1")) -> list[Values]:
        self.count += 1
        numbers = self.chance.sample(range(1, 9), 4)
        return [(number, self.chance.choice(parts), f"note-{self.count}") for number in sorted(numbers)]

    def act(self, act: str, within: str = "") -> None:
        """Act as somebody who has runs; others may act between the plan and the stages."""
        name = self.chance.choice(list(self.runs))
        run = self.runs[name]
        self.told.append(f"{name}: {act}")
        if act in ("second", "other"):
            self.begin(run.day if act == "second" else 1 + len(self.runs))
        elif act == "clear":
            run.clears += 1
            self.stages(name, within)
        else:
            if act == "rename":
                run.outputs = {f"{one}-{len(self.told)}": where for one, where in run.outputs.items()}
            elif act == "remove" and len(run.outputs) > 1:
                run.outputs.pop(self.chance.choice(list(run.outputs)))
            elif act == "edit":
                run.note = "note" if run.note != "note" else "concat(note, '!')"
            elif act in ("anew", "empty", "lacks"):
                parts = ("p0", "p1") if act == "anew" else (self.chance.choice(["p0", "p1"]),)
                run.rows = [] if act == "empty" else self.rows(parts)
            self.anew(name, within)

    def anew(self, name: str, within: str = "") -> None:
        """Plan a run (anew), and run it."""
        run = self.runs[name]
        text = "".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in run.rows)
        (self.folder / "lake/in" / f"{name}.jsonl").write_text(text)
        self.declare(run)
        dated = {"interval": days(run.day)} if self.model.dated else {}
        run.plans, run.clears, run.since_plan = run.plans + 1, 1, set()
        try:
            run.plan = self.here.plan("tests.support.table_places:acting", name, generation=run.plans, **dated)
        except SamzaError as error:
            self.reject(name, error)
            return
        self.stages(name, within)

    def declare(self, run: Run) -> None:
        """Have the application be that of a run."""
        options = {**self.place.options, "system": "tables", "mode": self.model.mode}
        options |= {"key": "id"} if self.model.mode == UPSERT else {}
        options |= {"run_column": self.column} if self.column else {}
        table_places.OUTPUTS[:] = [(one, where, run.note, options) for one, where in run.outputs.items()]

    def stages(self, name: str, within: str) -> None:
        """Run the stage of a run, unless it is kept."""
        run = self.runs[name]
        self.declare(run)
        if within:
            self.others(within)
        if run.plan is None:
            return
        (stage,) = run.plan.plan.stages
        generation = Generation(run.plan.generation, run.clears)
        handle, files = StageHandle(run.plan.application, name, stage.stage_id, generation), self.here.log.filesystem
        files.make_dirs(handle.folder.attempts)
        *_, after = self.model.published(name, run.written())
        try:
            kept = keep_result(files, run.plan, handle)
            if kept:
                after = self.model.state
                mine = Counter(one[:3] for one in after.rows if one.writer is not None and one.writer[0] == name)
                assert mine == Counter(row for rows in run.written().values() for row in rows), ("kept", *self.told)
            else:
                code = run.plan.fingerprints[stage.stage_id][CODE]
                write_once(
                    files,
                    handle.folder.attempt(1, "request"),
                    StageRequest(stage.stage_id, str(generation), 1, code=code),
                )
                self.here.stages(run.plan, generation=run.clears)
        except SamzaError as error:
            self.reject(name, error)
            return
        self.told.append("kept" if kept else "ran")
        if not kept:
            self.model.wrote(name, run.outputs, after)
        self.here.runtime.close(run.plan)
        self.compare()

    def reject(self, name: str, error: SamzaError) -> None:
        """Take notice of a rejection, which has to be right and to lose nothing."""
        run, said = self.runs[name], str(error)
        self.told.append(f"rejected: {said}")
        rules = [text for text in ALLOWED if re.search(text, said)]
        assert any(ALLOWED[rule](self.model, name, run.outputs, run.since_plan) for rule in rules), self.told
        found, steps = Counter(self.place.found()), list(self.model.published(name, run.written()))
        assert found in [step.values for step in steps], (sorted(found.items()), self.told)
        self.model.state = next(step for step in steps if step.values == found)
        self.rejected[rules[-1]] += 1

    def compare(self) -> None:
        """Compare what readers find with the model, and remember the version."""
        found, expected = Counter(self.place.found()), self.model.state.values
        assert found == expected, (f"found {found - expected} too much, {expected - found} too little", *self.told)
        version = self.place.version()
        if version is not None:
            self.model.seen.append((version, self.model.state))


@pytest.fixture(autouse=True)
def _outputs() -> Iterator[None]:
    yield
    table_places.OUTPUTS.clear()


def play(folder: Path, number: int, seed: int, place: Place | None = None) -> Player:
    """Play the sequence of a seed in one of the ways."""
    kind, *_ = way = WAYS[number]
    pairs = [(own, theirs) for own in OWN for theirs in kind.acts]
    own, theirs = pairs[(seed * 7 + number) % len(pairs)]
    player = Player(folder, way, seed, place)
    player.play(own, theirs)
    return player


NAMES = [f"{kind.__name__}-{mode}{'-run_column' if column else ''}" for kind, mode, column in WAYS]
EACH_WAY = pytest.mark.parametrize("number", range(len(WAYS)), ids=NAMES)


@pytest.mark.random
@EACH_WAY
def test_an_output_has_the_rows_of_the_model_whoever_acts(number: int, tmp_path: Path) -> None:
    for seed in range(share(200, 1)):
        play(tmp_path / str(seed), number, seed)


def empty(player: Player) -> None:
    player.runs["run-0"].rows = []
    player.anew("run-0")


def compacted(player: Player) -> None:
    player.others("compact")


@pytest.mark.parametrize("kind", [Iceberg, Delta])
@pytest.mark.parametrize(("before", "column"), [(empty, ""), (compacted, "run")])
def test_a_run_takes_the_table_from_one_that_has_replaced_it_since(
    before: Callable[[Player], None], column: str, kind: type[Place], tmp_path: Path
) -> None:
    player = Player(tmp_path, (kind, REPLACE_TABLE, column), seed=0)
    player.model.dated = player.split = False
    player.begin(1)
    before(player)
    player.begin(2)
    first = player.runs["run-0"]
    first.rows = player.rows()
    player.anew("run-0")
    assert not player.rejected
    assert Counter(player.place.found()) == Counter(first.rows)


@pytest.mark.extended
@pytest.mark.random
@EACH_WAY
def test_an_output_has_the_rows_of_the_model_in_other_sequences(number: int, tmp_path: Path) -> None:
    for seed in range(1000, 1000 + share(4)):
        play(tmp_path / str(seed), number, seed)


SQL = ", ".join(COLUMNS)


@pytest.mark.nightly
def test_duckdb_finds_the_rows_of_the_model(tmp_path: Path) -> None:
    # It loses the partitions of tables with column mapping.
    played = [
        play(tmp_path / name, number, 2000) for number, name in enumerate(NAMES) if WAYS[number][0] is not MappedDelta
    ]
    played = [player for player in played if player.model.state.rows]
    answers = lake_reader.ask(*(f"SELECT {SQL} FROM {player.place.words()}" for player in played))
    for player, answer in zip(played, answers, strict=True):
        assert Counter((row[0], row[1], row[2]) for row in answer) == player.model.state.values, player.told


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [Iceberg, Delta, MappedDelta])
def test_spark_finds_the_rows_of_the_model(kind: type[Place], tmp_path: Path) -> None:
    numbers = [number for number, way in enumerate(WAYS) if way[0] is kind]
    played = [
        play(tmp_path / NAMES[number], number, 3000, kind(tmp_path / "tables", f"out_{number}")) for number in numbers
    ]
    with spark_of_iceberg(tmp_path / "tables") if kind is Iceberg else _spark_of_delta(tmp_path) as spark:
        for player in played:
            place = player.place
            named = f"default.{place.table_name}" if kind is Iceberg else f"delta.`{place.folder}/web/{place.name}`"
            rows = spark.rows(f"SELECT {SQL} FROM {named}")
            assert Counter((row["id"], row["part"], row["note"]) for row in rows) == player.model.state.values, (
                player.told
            )


class _SparkOfDelta:
    """A session of Spark with Delta's connector, that answers statements of SQL."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Return the rows of a statement."""
        return [row.asDict() for row in self._session.sql(statement).collect()]


@contextmanager
def _spark_of_delta(folder: Path) -> Iterator[_SparkOfDelta]:
    with spark_with_delta(folder / "session") as made:
        yield _SparkOfDelta(made._session)
