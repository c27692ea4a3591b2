"""``airflow-samza run`` with the id of a run that is there: it goes on by its plan, or says why not.

Runners have no Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.cli.environment import find_environment
from airflow_samza.cli.remedies import on_the_command_line
from airflow_samza.cli.run_command import name_of, parse_interval, run_application
from airflow_samza.cli.run_lines import PlainLines
from airflow_samza.errors import ConfigError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.prepare.run_request import RunRequest, option_fields
from airflow_samza.prepare.unchanged import reject_other_options
from airflow_samza.runs.progress.run_list import newest_runs, origin_of
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.support.looping import APPLICATION, Place
from tests.support.runner_without_spark import use_instead
from tests.support.runs_here import Here

Run = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that runs the application as the run ``one``, and returns what was told."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[3]}:{tmp_path}")
    (tmp_path / "looping_app.py").write_text(APPLICATION)
    Place(tmp_path).send(0, 40)
    use_instead(monkeypatch, tmp_path / "dials")

    def run(
        *config: str,
        run_id: str | None = "one",
        again: bool = False,
        interval: str | None = None,
        mode: str | None = None,
        application: str = "looping_app:bounded",
        **more: Any,
    ) -> list[str]:
        told: list[str] = []
        environment = find_environment(None, root="root", config=config)
        request = RunRequest(
            application,
            name_of(run_id),
            config=environment.config,
            interval=parse_interval(interval),
            mode=mode,
        )
        run_application(request, environment, again=again, lines=PlainLines(told.append), **more)
        return told

    return run


@pytest.mark.extended
def test_a_run_goes_on_by_the_options_with_which_it_was_planned_alone(run: Run) -> None:
    assert not any("has succeeded before" in text for text in run("x=1"))
    for change, said in (
        ({"config": ["x=2"]}, "--config x was '1', and is '2' now"),
        ({"config": []}, "--config x was '1', and is not set now"),
        ({"config": ["x=1", "api.key=hush"]}, r"--config api\.key was not set, and is \*\*\* now"),
        ({"config": ["x=1"], "interval": "2026-01-01/2026-01-02"}, "--interval was not set, and is "),
        ({"config": ["x=1"], "mode": "pipelined"}, "--mode was staged, and is pipelined now"),
    ):
        options = dict(change)
        with pytest.raises(ConfigError, match=f"The run 'one' of 'looping' was planned with other options: {said}"):
            run(*options.pop("config"), **options)
    told = run("x=1")
    assert any(text.startswith("Run one has succeeded before: nothing is read or written now") for text in told)
    assert not any("has succeeded before" in text for text in run("x=2", again=True, mode="pipelined"))
    assert any("has succeeded before" in text for text in run("x=2"))  # in the mode in which it was planned


@pytest.mark.extended
def test_when_a_run_was_planned_is_on_record_for_lists_from_then_on(run: Run, tmp_path: Path) -> None:
    run("x=1")
    files = open_filesystem(str(tmp_path / "root"))
    origin = origin_of(files, "looping", "one")
    assert (origin.dag_id, [entry.at for entry in newest_runs(files)]) == ("", [origin.at])
    run("x=1")
    assert origin_of(files, "looping", "one") == origin


LINES = """
from airflow_samza import stream_application

def changed(line):
    return {{"word": line.word, "n": {value}}}

@stream_application("looping")
def app(app):
    lines = app.input_stream("lines", system="log", schema="word string, n bigint, at timestamp", partitions=2, bounded=True)
    {kept}.map(changed, schema="word string, n bigint").send_to(app.output_stream("out", system="log", partitions=2))
"""


@pytest.fixture
def lines(run: Run, tmp_path: Path) -> Callable[..., None]:
    """Return a function that writes a module with an application called ``looping``."""

    def write(name: str, value: str, kept: str = "lines") -> None:
        (tmp_path / f"{name}.py").write_text(LINES.format(value=value, kept=kept))

    return write


@pytest.mark.extended
def test_rejects_to_resume_the_run_of_another_application_of_the_same_name(
    run: Run, lines: Callable[..., None]
) -> None:
    lines("positive", "line.n", 'lines.where("n > 0")')
    run("x=1")
    said = (
        "The run 'one' of 'looping' belongs to looping_app:bounded, and positive:app is another application of this "
        "name: its plan differs"
    )
    with pytest.raises(ConfigError, match=said) as caught:
        run("x=2", application="positive:app")
    assert on_the_command_line(caught.value.hint) == (
        "Give the run another id (--run-id). If looping_app:bounded has become positive:app, run it again with --again. "
        "Two applications need two names, an app_id= each, or two roots."
    )
    told = run("x=2", application="positive:app", again=True)
    assert any(text.startswith("Run one of positive:app") for text in told)
    assert any("has succeeded before" in text for text in run("x=2", application="positive:app"))


@pytest.mark.extended
def test_a_run_whose_application_has_moved_and_changed_its_functions_goes_on_with_those(
    run: Run, lines: Callable[..., None], tmp_path: Path
) -> None:
    lines("former", "line.n")
    files = tmp_path / "root"
    SparkRuntime(str(files)).prepare(RunRequest("former:app", "one"))
    (tmp_path / "former.py").unlink()
    sys.modules.pop("former")
    lines("moved", "1000")
    run(application="moved:app")
    assert {row["n"] for row in Here(files).rows("out")} == {1000}
    assert SparkRuntime(str(files)).load_plan("looping", "one").reference == "former:app"


def planned(**options: Any) -> RunPlan:
    plan = ExecutionPlan("looping", "1", (), (), (), (), ())
    return RunPlan("looping", "1", "m:a", "one", 1, plan, {}, options=asked(**options).options())


def asked(**options: Any) -> RunRequest:
    return RunRequest("m:a", "one", **options)


SECTIONS, TABLES = {"minutes": "monday"}, {"tiers": "push-1"}


@pytest.mark.parametrize(
    ("run", "options", "said"),
    [
        (planned(), {"state_from": "fresh"}, "--state-from was previous, and is fresh now"),
        (planned(state_from="fresh"), {"state_from": "run-7"}, "--state-from was fresh, and is run-7 now"),
        (planned(state_from="run-7"), {"state_from": "run-8"}, "--state-from was run-7, and is run-8 now"),
        (
            planned(sections=SECTIONS),
            {"sections": {"minutes": "tuesday"}},
            "--section minutes was monday, and is tuesday now",
        ),
        (planned(), {"sections": {"minutes": "tuesday"}}, "--section minutes was not set, and is tuesday now"),
        (planned(tables=TABLES), {"tables": {"tiers": "push-2"}}, "--table tiers was push-1, and is push-2 now"),
    ],
)
def test_state_sections_and_versions_are_those_of_the_plan(run: RunPlan, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"was planned with other options: {said}"):
        reject_other_options(run, asked(**options))


def test_what_was_planned_may_be_said_again_or_left_out() -> None:
    options: dict[str, Any] = {"state_from": "run-7", "sections": SECTIONS, "tables": TABLES}
    reject_other_options(planned(**options), asked())
    reject_other_options(planned(**options), asked(**options))


def test_the_same_interval_in_another_time_zone_is_the_same() -> None:
    run = planned(interval=DataInterval.from_iso("2026-01-01T01:00+01:00", "2026-01-01T02:00+01:00"))
    reject_other_options(run, asked(interval=DataInterval.from_iso("2026-01-01T00:00", "2026-01-01T01:00")))


OTHER_VALUES: dict[str, Any] = {
    "config": {"a": "1"},
    "interval": DataInterval.from_iso("2026-01-01", "2026-01-02"),
    "mode": "pipelined",
    "state_from": "fresh",
    "sections": SECTIONS,
    "tables": TABLES,
}


@pytest.mark.parametrize("option", [option.name for option in option_fields()])
def test_every_option_of_a_request_is_compared(option: str) -> None:
    flag = next(found.metadata["flag"] for found in option_fields() if found.name == option)
    with pytest.raises(ConfigError, match=f"was planned with other options: {flag} "):
        reject_other_options(planned(), asked(**{option: OTHER_VALUES.get(option, "another")}))


@pytest.mark.parametrize("run_id", ["", "  "])
def test_an_empty_run_id_is_rejected(run: Run, run_id: str) -> None:
    with pytest.raises(ConfigError, match="--run-id is empty"):
        run(run_id=run_id)


@pytest.mark.parametrize("length", ["-5 minutes", "0 minutes", "soon"])
def test_a_length_that_is_none_names_the_option(run: Run, length: str) -> None:
    with pytest.raises(ConfigError, match=f"^--for '{length}' is not a positive length of time\\."):
        run(mode="pipelined", until=length)
