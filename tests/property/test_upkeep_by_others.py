"""Tables that somebody compacts, and clears of old versions and files, while runs publish, die and are cleared.

Others act between the epochs, and at the steps of a publication: each row is there once, by an independent reader.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.delta import publishing as delta_publishing
from airflow_samza.systems.iceberg import expiry, publishing as iceberg_publishing
from airflow_samza.systems.tables import merging, publishing
from demo import lake_reader
from tests.support import delta_deaths, delta_outputs, iceberg_deaths, iceberg_outputs
from tests.support.budgets import EXTENDED, NIGHTLY, extended_but
from tests.support.iceberg_deaths import Publishers, acting_at, points_of_merges, publishers
from tests.support.iceberg_lake import compact

WAYS = (
    {"run_column": "run"},
    {"mode": "replace partitions", "partition_by": "part"},
    {"mode": "append"},
)
"""Outputs: after a compaction the last one cannot tell its rows, and the second one only with all that a run wrote."""

FOREIGN = 10**6
"""Numbers of rows from here on are of somebody else."""


class Iceberg:
    """A table of a catalog with an output, and what others do to it."""

    module = "tests.support.iceberg_deaths"
    points: Mapping[str, tuple[Any, str]] = {
        **iceberg_deaths.POINTS,
        **points_of_merges(iceberg_publishing._Publisher),
    }

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        self.folder = folder
        self.output = iceberg_outputs.made_output(folder, **options)

    def append(self, number: int) -> None:
        self.output.foreign({"id": number, "part": "foreign"})

    def compact(self) -> None:
        table = self.output.table()
        if len(list(table.scan().plan_files())) > 1:
            compact(table)

    def expire(self) -> None:
        """Expire old snapshots; the library deletes no file."""
        table = self.output.table()
        if old := [one.snapshot_id for one in table.snapshots()][:-2]:
            table.maintenance.expire_snapshots().by_ids(old).commit()

    def vacuum(self) -> None:
        """Delete the data files that no snapshot has, as others do for whom they are old enough."""
        table = self.output.table()
        live = {
            task.file.file_path
            for one in table.snapshots()
            for task in table.scan(snapshot_id=one.snapshot_id).plan_files()
        }
        for file in Path(table.location().removeprefix("file://"), "data").rglob("*.parquet"):
            if f"file://{file}" not in live:
                file.unlink()

    def words(self) -> str:
        return lake_reader.iceberg_rows(self.folder, "web.out")


class Delta:
    """A table in a folder with an output, and what others do to it."""

    module = "tests.support.delta_deaths"
    points: Mapping[str, tuple[Any, str]] = {**delta_deaths.POINTS, **points_of_merges(delta_publishing._Publisher)}

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        short = {"delta.checkpointInterval": "5", "delta.logRetentionDuration": "interval 0 seconds"}
        self.output = delta_outputs.made_output(folder, **options, **short)

    def append(self, number: int) -> None:
        self.output.foreign({"id": number, "part": "foreign"})

    def compact(self) -> None:
        self.output.table().optimize.compact()

    def expire(self) -> None:
        """Write a checkpoint, and delete the commits before it."""
        table = self.output.table()
        table.create_checkpoint()
        table.cleanup_metadata()

    def vacuum(self) -> None:
        """Delete the data files that the newest version has not, as others do for whom they are old enough."""
        self.output.table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def words(self) -> str:
        return lake_reader.delta_rows(self.output.place)


class Others:
    """Whoever appends to a table, compacts it and clears it of old versions."""

    def __init__(self, lake: Iceberg | Delta, chance: random.Random) -> None:
        self.lake = lake
        self.rows: list[int] = []
        self._chance = chance

    def act(self, *more: Callable[[], None]) -> None:
        """Do something; ``more`` is what they may do, too."""
        acts = [self._append, self.lake.compact, self.lake.compact, self.lake.expire, *more]
        for act in self._chance.sample(acts, 2):
            act()

    def _append(self) -> None:
        self.lake.append(FOREIGN + len(self.rows))
        self.rows.append(FOREIGN + len(self.rows))


class Runs:
    """Runs of an application, one after the other, of which each has epochs and is cleared; and the rows of each."""

    def __init__(self, others: Others, dying: Publishers, chance: random.Random) -> None:
        self.rows: dict[int, list[int]] = {0: []}
        self._others, self._dying, self._chance = others, dying, chance
        self._output, self._points = others.lake.output, others.lake.points
        self._run, self._clear, self._epoch, self._next = 0, 1, 0, 0

    def publish(self) -> None:
        """Publish an epoch: a process may die of it, and others are at work before it is tried again and within that."""
        numbers = [self._next, self._next + 1, self._next + 2]
        self._next += 3
        rows = [{"id": number, "part": f"run-{self._run}"} for number in numbers]
        work = self._output.publication(rows, run=f"run-{self._run}", generation=f"1.{self._clear}", epoch=self._epoch)
        if self._chance.random() < 0.5:
            options = {name: text for name, text in self._output.spec.options if name != "table"}
            assert self._dying.publish(work, self._step(), **options) in (-signal.SIGKILL, 0, 1)  # 1: rejected
            self._others.act()
        acted: list[bool] = []
        with pytest.MonkeyPatch.context() as patch:

            def act() -> None:
                if not acted:
                    acted.append(True)
                    self._others.act()

            patch.setattr(*acting_at(self._step(), self._points, act))
            self._output.system.publish(self._output.spec, work)
        self._output.system.publish(self._output.spec, work)
        self.rows[self._run] = [*(self.rows[self._run] if self._epoch else []), *numbers]
        self._epoch += 1

    def clear(self) -> None:
        """Clear the run."""
        self._clear, self._epoch = self._clear + 1, 0

    def begin(self) -> None:
        """Go on with the next run."""
        self._run, self._clear, self._epoch = self._run + 1, 1, 0
        self.rows[self._run] = []

    def _step(self) -> str:
        return f"{self._chance.choice(['before', 'after'])} {self._chance.choice(list(self._points))}"


@pytest.mark.random
@pytest.mark.parametrize("kind", [Iceberg, Delta])
@pytest.mark.parametrize("seed", extended_but([], range(24), range(1, 24)))
def test_others_who_compact_and_clear_up_beside_runs_lose_and_double_nothing(
    kind: type[Iceberg | Delta], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.publishing.time.sleep", lambda _: None)
    for module, name, value in ((publishing, "LOOKED_AT", 2), (merging, "TOGETHER", 2), (expiry, "YOUNG_SECONDS", 0.0)):
        monkeypatch.setattr(module, name, value)
    chance, way = random.Random(seed), WAYS[seed % len(WAYS)]
    lake = kind(tmp_path, way)
    others = Others(lake, chance)
    with publishers(tmp_path, lake.module) as dying:
        runs = Runs(others, dying, chance)
        for _ in range(10):
            try:
                runs.publish()
            except TopicError as error:
                if "are left" not in str(error) or "run_column" in way:
                    raise
                runs.clear() if "partition_by" in way else runs.begin()
            else:
                then = chance.choice(["clear", "begin", "", ""])
                if then:
                    getattr(runs, then)()
            others.act(lake.vacuum)
    expected = sorted([*(row for rows in runs.rows.values() for row in rows), *others.rows])
    assert lake.output.ids() == expected
    if EXTENDED or NIGHTLY:
        ((answer),) = lake_reader.ask(f"SELECT id FROM {lake.words()} ORDER BY id")
        assert [number for (number,) in answer] == expected
