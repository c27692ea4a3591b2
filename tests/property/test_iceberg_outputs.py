"""Random publications to a table, with appends by others and repetitions, leave the rows that a plain model has."""

from __future__ import annotations

import copy
import tempfile
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from airflow_samza.errors import TopicError
from airflow_samza.systems.system import Publication
from tests.support.budgets import share
from tests.support.iceberg_lake import append, catalog_at
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


def table_at(root: str) -> Table:
    with catalog_at(root) as catalog:
        return catalog.load_table("web.out")


def publish(output: Slotted, work: Publication) -> str:
    try:
        output.system.publish(output.stream, work)
    except TopicError:
        return "rejected"
    return "done"


def check(sequence: list[Act | Foreign | Again], data: list[tuple[int, int] | None]) -> None:
    """Play a sequence; ``data`` is what each run writes, by the plan and the number of the run."""
    model, others, done = Model(), list[int](), list[tuple[Act, Publication]]()
    highest: dict[tuple[str, tuple[int, int]], int] = {}
    with tempfile.TemporaryDirectory() as root:
        output = Slotted("iceberg", root)
        for act in sequence:
            before = table_at(root)
            if isinstance(act, Foreign):
                added = [10**7 + len(others) + place for place in range(act.rows)]
                assert schema_to_pyarrow(before.schema()).names == ["id"]
                append(before, [{"id": row} for row in added])
                others += added
            elif isinstance(act, Again):
                if len(done) < act.back:
                    continue
                publish(output, done[-act.back][1])  # done or replaced since: nothing changes
                assert table_at(root).metadata_location == before.metadata_location, act
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
            found = table_at(root)
            assert sorted(found.scan().to_arrow()["id"].to_pylist()) == sorted([*model.rows, *others]), act
            assert len(found.metadata.snapshots) <= len(before.metadata.snapshots) + 1, "one snapshot for one epoch"


@settings(deadline=None, max_examples=share(25, 4), suppress_health_check=[HealthCheck.too_slow])
@given(sequence=sequences, data=data_of_runs)
def test_a_table_holds_what_a_plain_model_says(
    sequence: list[Act | Foreign | Again], data: list[tuple[int, int] | None]
) -> None:
    check(sequence, data)


@pytest.mark.nightly
@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(sequence=sequences, data=data_of_runs)
def test_a_table_holds_what_a_plain_model_says_of_many_sequences(
    sequence: list[Act | Foreign | Again], data: list[tuple[int, int] | None]
) -> None:
    check(sequence, data)
