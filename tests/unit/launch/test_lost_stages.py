"""Stages that were lost: the hint to try again promises what the outputs of the stage keep. No Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.errors import SamzaError, StageFailed, StageLost
from airflow_samza.launch import runtime
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import FAILED, StageHandle, StatusRecord
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.changing_modules import ChangingModules

HEAD = """
from airflow_samza import stream_application

def tell(word, row=None):
    pass

@stream_application("lost")
def app(app):
    words = app.input_stream("words", schema="word string, n bigint", partitions=2)
"""

FILE = '    words.send_to(app.output_stream("file", system="lake", format="json"))\n'
APPENDED = '    words.send_to(app.output_stream("rows", system="warehouse", options={"table": "rows"}))\n'
DELTA = '    words.send_to(app.output_stream("rows", system="warehouse", format="delta", options={"table": "rows"}))\n'
REPLACED = '    words.send_to(app.output_stream("rows", system="warehouse", options={"mode": "overwrite"}))\n'
SINK = '    words.sink(tell, id="tell")\n'
REMOTE = '    words.send_to(app.remote_table("prices", key="word", schema="word string, n bigint", writer=tell))\n'
SHUFFLE = (
    '    words.partition_by("word", id="by-word").send_to(app.output_stream("file", system="lake", format="json"))\n'
)

NOTHING = "what is staged is kept, and nothing is doubled."


class Lost:
    """A root, and the error of the first stage of an application that was lost."""

    def __init__(self, folder: Path, modules: ChangingModules) -> None:
        self._modules = modules
        self.files = open_filesystem(str(folder / "root"))
        systems = {"lake": SystemBinding("files", {"root": str(folder)}), "warehouse": SystemBinding("spark")}
        self._runtime = SparkRuntime(str(folder / "root"), systems)

    def submitted(self, body: str) -> StageHandle:
        """A stage whose runner has died: it was asked for, and nobody runs it."""
        self._modules.write("lost_app", HEAD + body)
        run = self._runtime.prepare(RunRequest("lost_app:app", "run-1"))
        handle = StageHandle(run.application, run.run_id, run.plan.stages[0].stage_id, Generation(1, 1), 1)
        request = StageRequest(handle.stage_id, "1.1", 1)
        write_once(self.files, handle.folder.attempt(1, "request"), request)
        return handle

    def error(self, handle: StageHandle) -> SamzaError:
        with pytest.raises(SamzaError) as raised:
            self._runtime.finish(handle)
        return raised.value

    def failed(self, handle: StageHandle, error: SamzaError) -> SamzaError:
        """The error of a stage that its runner gave up with one."""
        write_once(self.files, handle.folder.attempt(1, "status"), StatusRecord(FAILED, error.to_dict()))
        return self.error(handle)


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lost:
    import pyarrow as pa

    log = LogSystem("log", SystemBinding("log", {"root": str(tmp_path / "root")}))
    log.append("words", pa.table({"word": ["a", "b"], "n": [1, 2]}), key=["word"], partitions=2)
    return Lost(tmp_path, ChangingModules(tmp_path, monkeypatch))


@pytest.mark.parametrize("body", [FILE, DELTA, REPLACED, SHUFFLE, FILE + REPLACED])
def test_promises_that_nothing_is_doubled_where_all_outputs_are_exactly_once(lost: Lost, body: str) -> None:
    error = lost.error(lost.submitted(body))
    assert isinstance(error, StageLost)
    assert error.hint == f"Try again: {NOTHING}"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (APPENDED, "the output 'rows' (an append that dies between Spark's write and the record of it is made again"),
        (SINK, "the calls of sink tell (its function is called again"),
        (REMOTE, "the remote table 'prices' (the rows of an epoch that is run again are written again"),
    ],
)
def test_names_what_may_come_twice(lost: Lost, body: str, named: str) -> None:
    handle = lost.submitted(FILE + body)
    assert "nothing is doubled" not in lost.error(handle).hint
    assert f"only what is delivered at least once may come twice: {named}" in lost.error(handle).hint


def test_what_a_runner_says_of_a_spark_that_is_gone_gets_the_same_promise(lost: Lost) -> None:
    gone = StageLost("Spark went away.", hint="Try again when it is back.")
    assert lost.failed(lost.submitted(FILE), gone).hint == (
        f"Try again when it is back. {NOTHING[0].upper()}{NOTHING[1:]}"
    )


def test_a_spark_that_went_away_with_the_pod_of_its_driver_is_reported_with_the_end_of_the_pod(
    lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "why_driver_ended", lambda *_: "its pod etl:views-driver is gone")
    gone = lost.failed(lost.submitted(FILE), StageLost("Spark went away.", hint="Try again when it is back."))
    assert gone.sentence == "Spark went away: its pod etl:views-driver is gone."


def test_what_a_runner_says_of_a_spark_that_is_gone_names_what_may_come_twice(lost: Lost) -> None:
    found = lost.failed(lost.submitted(APPENDED), StageLost("Spark went away.", hint="Try again when it is back."))
    assert "nothing is doubled" not in found.hint
    assert "the output 'rows' (an append" in found.hint


def test_other_failures_promise_nothing(lost: Lost) -> None:
    failed = StageFailed("A task failed.", hint="Correct it.")
    assert lost.failed(lost.submitted(APPENDED), failed).hint == "Correct it."
