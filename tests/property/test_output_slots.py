"""Random publications by runs of two applications, with deaths and retries, leave an output as a plain model says."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator, Sequence

import pyarrow.fs as pafs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.log import commits as log_commits
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.log.tails import TAIL_CACHE
from airflow_samza.systems.system import SystemBinding
from tests.support.budgets import share
from tests.support.faulty_arrow import FaultyHandler
from tests.support.slot_model import DAYS, Act, Model, Rejected, acts, row_of, slot_of
from tests.support.slotted import Slotted


@pytest.fixture(autouse=True, scope="module")
def many_snapshots() -> Iterator[None]:
    before = log_commits.SNAPSHOT_EVERY
    log_commits.SNAPSHOT_EVERY = 3
    yield
    log_commits.SNAPSHOT_EVERY = before


class Crash(Exception):
    """The process died here."""


def attempt(output: Slotted, act: Act, data: tuple[int, int] | None, dies_at: int) -> str:
    """Publish; return what came of it: ``done``, ``rejected`` or ``died``."""
    system = output.system
    if dies_at:
        seen = 0

        def tick(name: str) -> None:
            nonlocal seen
            seen += 1
            if seen == dies_at:
                raise Crash

        place = Location(pafs.PyFileSystem(FaultyHandler(tick)), output.root)
        system = FilesSystem("here", SystemBinding("files", {"root": output.root}), location=place)
    generation = f"{act.plan}.{act.clear}"
    work = output.publication(
        act.run_id, [row_of(act)], slot_of(act, data), generation, act.epoch, stage=act.stage, final=act.epoch == 1
    )
    try:
        system.publish(output.stream, work)
    except TopicError:
        return "rejected"
    except Crash:
        return "died"
    return "done"


def read_anew(output: Slotted) -> None:
    """Have the next look at a topic begin with its snapshots."""
    assert isinstance(output.system, LogSystem)
    TAIL_CACHE.forget(output.system.topic(output.stream.name))


def check(kind: str, sequence: Sequence[Act], data: Sequence[tuple[int, int] | None]) -> None:
    """Play a sequence; ``data`` is what each run writes, by the plan and the number of the run."""
    model = Model()
    unsure: set[str] = set()  # of these runs nobody knows whether they have begun to publish
    with tempfile.TemporaryDirectory() as root:
        output = Slotted(kind, root)
        for act in sequence:
            # A run has data of its own by both of its plans, or by none.
            first, planned = data[act.run], data[act.run + 3 * (act.plan - 1)]
            of = None if first is None else planned or first
            after = copy.deepcopy(model)
            try:
                after.publish(act, of, row_of(act))
                expected = "done"
            except Rejected:
                after, expected = copy.deepcopy(model), "rejected"
            if kind == "log" and act.dies_at:
                read_anew(output)
            found = attempt(output, act, of, act.dies_at if kind == "files" else 0)
            if found == "died":
                assert output.rows() in (model.rows, after.rows), act
                if act.dies_at % 2:  # a retry at once makes it good
                    found = attempt(output, act, of, 0)
                else:
                    unsure.add(act.run_id)
                    model = after if output.rows() == after.rows and after.rows != model.rows else model
                    continue
            if act.run_id in unsure and found != expected:
                # It had begun, and others have published since; what it had taken decides, and not when it comes back.
                assert (found, expected) == ("rejected", "done"), act
                after = model
            else:
                assert found == expected, act
            model = after
            assert output.rows() == model.rows, act


sequences = st.lists(acts, min_size=4, max_size=14)
data_of_runs = st.lists(st.sampled_from(DAYS), min_size=6, max_size=6)


@pytest.mark.parametrize("kind", ["log", "files"])
@settings(deadline=None, max_examples=share(25), suppress_health_check=[HealthCheck.too_slow])
@given(sequence=sequences, data=data_of_runs)
def test_an_output_holds_what_a_plain_model_says(
    kind: str, sequence: list[Act], data: list[tuple[int, int] | None]
) -> None:
    check(kind, sequence, data)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["log", "files"])
@settings(deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
@given(sequence=sequences, data=data_of_runs)
def test_an_output_holds_what_a_plain_model_says_of_many_sequences(
    kind: str, sequence: list[Act], data: list[tuple[int, int] | None]
) -> None:
    check(kind, sequence, data)
