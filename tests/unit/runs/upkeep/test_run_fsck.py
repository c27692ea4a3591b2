"""A look at the records of a run: what is damaged or missing, how serious it is, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.runs.records.folders import RunFolder, StageFolder, replace, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerFolder, RunnerPlace, StageRequest, enqueue
from airflow_samza.runs.stages.stage_state import SUCCEEDED, StatusRecord
from airflow_samza.runs.upkeep.fsck import DECIDES, TELLS, fsck_run, published_by, written_by
from airflow_samza.systems.log.fsck import Finding
from tests.support.pushes import Pushes
from tests.support.runs_here import Here

COUNTING = "tests.support.carrying_apps:counting"
CLICKS = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


class Ground:
    """A run of one stage that carries state, with all records that its runner leaves."""

    def __init__(self, root: Path) -> None:
        self.here = Here(root)
        self.files = self.here.log.filesystem
        rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(6)]
        self.here.log.append("clicks", pa.Table.from_pylist(rows, CLICKS), key=["member"], partitions=2)
        self.run = self.here.plan(COUNTING, "run-1")
        self.folder = RunFolder(self.run.application, "run-1")
        (stage,) = self.run.plan.stages
        self.here.stages(self.run)
        runner = RunnerFolder(self.folder, "key", 1)
        request = StageRequest(stage.stage_id, "1.1", 1, runner=RunnerPlace("key", 1))
        self.stage: StageFolder = self.folder.stage(stage.stage_id, Generation(1, 1))
        write_once(self.files, runner.claim, Claim(**identity(), claimed_at=1.0))
        replace(self.files, runner.heartbeat, Heartbeat(1.0))
        write_once(self.files, self.stage.attempt(1, "request"), request)
        replace(self.files, self.stage.attempt(1, "status"), StatusRecord(SUCCEEDED, at=1.0))
        enqueue(self.files, runner, request)

    def findings(self) -> list[Finding]:
        return list(fsck_run(self.files, self.folder))

    def records(self) -> Iterator[str]:
        """Yield the paths of all records, from the root."""
        for path in sorted((self.here.root / self.folder.path).rglob("*.json")):
            yield str(path.relative_to(self.here.root))


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


TELLING = ("claim.json", "heartbeat.json", "status.json", "closed.json", "origin.json", "slimmed.json")


@pytest.mark.parametrize("closed", [False, True])
def test_records_as_they_were_written_have_no_findings(ground: Ground, closed: bool) -> None:
    if closed:
        ground.here.runtime.close(ground.run)
    assert ground.findings() == []


def test_every_record_that_is_damaged_is_named_and_those_that_only_tell_are_not_serious(ground: Ground) -> None:
    ground.here.runtime.close(ground.run)
    looked_at = 0
    for path in ground.records():
        if path.endswith("program.json"):  # an attempt's own, which the next one writes anew
            continue
        data = ground.files.read(path)
        ground.files.put(path, b"{")
        found = [finding for finding in ground.findings() if finding.path == ground.files.location(path)]
        ground.files.put(path, data)
        tells = path.endswith(TELLING)
        assert [(finding.serious, finding.remedy) for finding in found] == [(not tells, TELLS if tells else DECIDES)], (
            path
        )
        assert found[0].what.startswith("is damaged: ")
        looked_at += 1
    assert looked_at >= 9
    assert ground.findings() == []


@pytest.mark.parametrize(
    "name",
    [
        "ends/1/drain.json",
        "ends/1/stop.json",
        "ends/1/deadline.json",
        "start/1/clicks.json",
        "branches/0a/0b-1.1-0.json",
        "push-like.json",
    ],
)
def test_records_that_few_runs_have_are_looked_at_too(ground: Ground, name: str) -> None:
    path = f"{ground.folder.path}/{name}"
    ground.files.put(path, b"{")
    assert [finding.path for finding in ground.findings()] == [ground.files.location(path)]


def test_a_record_of_another_release_has_to_be_json_and_no_more(ground: Ground) -> None:
    path = f"{ground.folder.path}/of-tomorrow.json"
    ground.files.put(path, b'{"a": 1}')
    assert ground.findings() == []
    ground.files.put(path, b"[1]")
    (finding,) = ground.findings()
    assert (finding.path, finding.serious, finding.remedy) == (ground.files.location(path), True, DECIDES)


def test_files_that_are_no_records_are_left_alone(ground: Ground) -> None:
    for folder in (ground.folder.path, ground.stage.path):
        ground.files.put(f"{folder}/notes.txt", b"{")
    assert ground.findings() == []


def test_an_intent_that_is_missing_behind_a_commit_is_named(ground: Ground) -> None:
    ground.files.delete(ground.stage.intent(0))
    (finding,) = ground.findings()
    assert (finding.path, finding.what) == (
        ground.files.location(ground.stage.intent(0)),
        "is missing, and its epoch is committed",
    )


@pytest.mark.parametrize("missing", ["result", "nothing", "the run is open"])
def test_a_manifest_that_a_commit_counts_on_is_missed_seriously_while_the_stage_goes_on(
    ground: Ground, missing: str
) -> None:
    if missing == "nothing":
        ground.here.runtime.close(ground.run)
    ground.files.delete(ground.stage.manifest(0, 1))
    if missing == "result":
        ground.files.delete(ground.stage.result)
    (finding,) = ground.findings()
    assert finding.path == ground.files.location(ground.stage.manifest(0, 1))
    assert finding.what == "is missing, and the stage's newest commit counts on it"
    assert finding.serious is (missing == "result")


def test_state_that_is_missing_is_serious_while_the_stage_goes_on_only(ground: Ground) -> None:
    states = ground.here.root / ground.stage.states
    for path in states.rglob("*"):
        if path.is_file():
            path.unlink()
    assert [finding for finding in ground.findings() if finding.serious] == []
    ground.files.delete(ground.stage.result)
    found = [finding for finding in ground.findings() if finding.serious]
    assert found
    assert all("(state of the operator " in finding.what for finding in found)


def test_what_results_say_to_have_published_and_where(ground: Ground) -> None:
    (published,) = published_by(ground.files, ground.folder)
    system, topic, said, at = published
    assert (system, topic, said.generation, said.epoch) == ("log", "numbered", "1.1", 0)
    assert at > 0
    assert list(written_by(ground.files, ground.folder)) == []
    ground.files.put(ground.stage.result, b"{")  # which another look names
    assert list(published_by(ground.files, ground.folder)) == []


def test_the_records_of_a_push_are_looked_at(tmp_path: Path) -> None:
    pushes = Pushes(tmp_path)
    request = pushes.request("monday")
    pushes.finish(pushes.stage(request, {1: "gold"}))
    run = request.handle.run
    write_once(pushes.files, f"{run.path}/push.json", request)
    assert list(fsck_run(pushes.files, run)) == []
    folder = request.handle.folder
    for path in (f"{run.path}/push.json", folder.result, folder.intent(0), folder.manifest(0, 1)):
        data = pushes.files.read(path)
        pushes.files.put(path, b"{")
        (finding,) = fsck_run(pushes.files, run)
        assert (finding.path, finding.serious) == (pushes.files.location(path), True)
        pushes.files.put(path, data)
