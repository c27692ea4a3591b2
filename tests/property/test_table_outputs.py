"""Random publications to a table, with appends by others and repetitions, leave the rows that a plain model has."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_samza.errors import TopicError
from airflow_samza.systems.system import Publication
from airflow_samza.systems.tables import commits, folded_records
from tests.support import delta_lake, iceberg_lake
from tests.support.budgets import extended_but, share
from tests.support.iceberg_lake import catalog_at
from tests.support.slot_model import DAYS, Act, Model, Rejected, acts, row_of, slot_of
from tests.support.slotted import Slotted


class Foreign(NamedTuple):
    """Rows that somebody else appends, with a library of their own."""

    rows: int


class Again(NamedTuple):
    """Repetition of a publication, by a process that does not know that it was done; ``back``: of the nth last one."""

    back: int


foreigners, repetitions = st.builds(Foreign, st.integers(1, 2)), st.builds(Again, st.integers(1, 4))
sequences = st.lists(st.one_of(acts, acts, acts, foreigners, repetitions), min_size=4, max_size=14)
data_of_runs = st.lists(st.sampled_from(DAYS), min_size=6, max_size=6)


class Seen(NamedTuple):
    """A table as its own library sees it: its state, how many versions it has, and its rows."""

    state: object
    versions: int
    rows: list[int]


def of_iceberg(root: str) -> Seen:
    with catalog_at(root) as catalog:
        table = catalog.load_table("web.out")
    rows = sorted(table.scan().to_arrow()["id"].to_pylist())
    return Seen(table.metadata_location, len(table.metadata.snapshots), rows)


def append_to_iceberg(root: str, rows: Sequence[Mapping[str, Any]]) -> None:
    with catalog_at(root) as catalog:
        iceberg_lake.append(catalog.load_table("web.out"), rows)


def of_delta(root: str) -> Seen:
    table = DeltaTable(f"{root}/web/out")
    rows = sorted(row["id"] for row in pa.table(table.scan().read_all()).to_pylist())
    return Seen(table.version(), table.version(), rows)


def append_to_delta(root: str, rows: Sequence[Mapping[str, Any]]) -> None:
    delta_lake.append(DeltaTable(f"{root}/web/out"), rows, pa.schema([("id", pa.int64())]))


KINDS = {"iceberg": (of_iceberg, append_to_iceberg), "delta": (of_delta, append_to_delta)}
kinds = pytest.mark.parametrize("kind", extended_but(["iceberg"], KINDS))


def publish(output: Slotted, work: Publication) -> str:
    try:
        output.system.publish(output.stream, work)
    except TopicError:
        return "rejected"
    return "done"


@contextmanager
def open_records(number: int) -> Iterator[None]:
    """Let tables keep so many records open, and of those that are folded two in a block."""
    with mock.patch.object(commits, "OPEN_RECORDS", number), mock.patch.object(folded_records, "BLOCK", 2):
        yield


def check(kind: str, sequence: list[Act | Foreign | Again], data: list[tuple[int, int] | None]) -> None:
    """Play a sequence; ``data`` is what each run writes, by the plan and the number of the run."""
    seen, append = KINDS[kind]
    model, others, done = Model(), list[int](), list[tuple[Act, Publication]]()
    highest: dict[tuple[str, tuple[int, int]], int] = {}
    with tempfile.TemporaryDirectory() as root:
        output = Slotted(kind, root)
        for act in sequence:
            before = seen(root)
            if isinstance(act, Foreign):
                added = [10**7 + len(others) + place for place in range(act.rows)]
                append(root, [{"id": row} for row in added])
                others += added
            elif isinstance(act, Again):
                if len(done) < act.back:
                    continue
                publish(output, done[-act.back][1])  # done or replaced since: nothing changes
                assert seen(root).state == before.state, act
            else:
                first, planned = data[act.run], data[act.run + 3 * (act.plan - 1)]
                of = None if first is None else planned or first
                stage = act.producer, act.generation
                if highest.get(stage, -1) > act.epoch:
                    continue  # epochs of a stage come in order
                after = copy.deepcopy(model)
                try:
                    after.publish(act, of, row_of(act))
                    expected = "done"
                except Rejected:
                    after, expected = copy.deepcopy(model), "rejected"
                generation = f"{act.plan}.{act.clear}"
                work = output.publication(
                    act.run_id, [row_of(act)], slot_of(act, of), generation, act.epoch, stage=act.stage
                )
                assert publish(output, work) == expected, act
                if expected == "done":
                    new = highest.get(stage) != act.epoch
                    highest[stage] = act.epoch
                    if new:
                        done.append((act, work))
                model = after
            assert output.rows() == sorted([*model.rows, *others]), act
            found = seen(root)
            assert found.rows == sorted([*model.rows, *others]), act
            assert found.versions <= before.versions + 1, "one version for one epoch"


@kinds
@settings(deadline=None, max_examples=share(25, 4), suppress_health_check=[HealthCheck.too_slow])
@given(sequence=sequences, data=data_of_runs, folds=st.booleans())
@pytest.mark.extended
def test_a_table_holds_what_a_plain_model_says(
    kind: str, sequence: list[Act | Foreign | Again], data: list[tuple[int, int] | None], folds: bool
) -> None:
    with open_records(1 if folds else commits.OPEN_RECORDS):
        check(kind, sequence, data)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(sequence=sequences, data=data_of_runs, folds=st.booleans())
def test_a_table_holds_what_a_plain_model_says_of_many_sequences(
    kind: str, sequence: list[Act | Foreign | Again], data: list[tuple[int, int] | None], folds: bool
) -> None:
    with open_records(1 if folds else commits.OPEN_RECORDS):
        check(kind, sequence, data)
