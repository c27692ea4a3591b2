"""Output, files and rejections of ``airflow-samza plan``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from airflow_samza.cli.app import app
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.prepare.run_request import RunRequest

VIEWS = """
from airflow_samza import count, stream_application

@stream_application("views")
def views(app):
    source = app.input_stream("views", system="logs", schema="member bigint, country string", {partitions}path={path!r})
    (
        source.where("member > 1")
        .partition_by("country", id="by-country")
        .aggregate("country", views=count(), id="per-country")
        .send_to(app.output_stream("out", system="warehouse"))
    )

not_an_application = 5
broken = None
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a module of its own with an application ``views``, in the current folder.

    ``data/views`` holds its input.
    """
    name = "application_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    write_application(tmp_path / f"{name}.py")
    folder = tmp_path / "data" / "views"
    folder.mkdir(parents=True)
    (folder / "1.jsonl").write_text('{"member": 5, "country": "NO"}\n{"member": 1, "country": "SE"}\n')
    yield name
    sys.modules.pop(name, None)


def write_application(file: Path, path: str = "views", partitions: str = "partitions=3, ") -> None:
    file.write_text(VIEWS.format(path=path, partitions=partitions))


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


BOUND = ("--root", "root", "--system", "logs=files:data", "--system", "warehouse=files:out")


def test_without_an_environment_the_declared_counts_are_planned_and_that_is_said(module: str) -> None:
    done = call("plan", f"{module}:views")
    assert done.exit_code == 0, done.output
    assert "views (id 1): 2 stages" in done.stdout
    assert "3 partitions" in done.stdout
    assert done.stderr.startswith("Note: No system was asked")


def test_with_an_environment_the_systems_are_asked_and_nothing_is_stored(module: str, tmp_path: Path) -> None:
    done = call("plan", f"{module}:views", *BOUND)
    assert done.exit_code == 0, done.output
    assert "declared" in done.stdout
    assert "No system was asked" not in done.stderr
    assert done.stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir() and path.name != "__pycache__") == ["data"]


def test_json_with_an_environment_has_the_engines_and_reads_back_as_the_plan(module: str) -> None:
    text = call("plan", f"{module}:views", *BOUND, "--json").stdout
    found = json.loads(text)
    assert found["engines"].keys() <= {operator for stage in found["stages"] for operator in stage["operators"]}
    assert found["engines"]
    assert found["flows"].keys() <= {stage["stage_id"] for stage in found["stages"]}
    assert ExecutionPlan.from_json(text).fingerprint == found["fingerprint"]


def test_a_plan_with_an_environment_names_the_engine_of_every_operator(module: str) -> None:
    done = call("plan", f"{module}:views", *BOUND)
    assert done.exit_code == 0, done.output
    assert "arrow" in next(line for line in done.stdout.splitlines() if "where" in line and "member > 1" in line)


def test_the_same_application_prints_the_same_bytes(module: str) -> None:
    assert call("plan", f"{module}:views").stdout == call("plan", f"{module}:views").stdout


def test_json_reads_back_as_the_plan(module: str) -> None:
    plan = ExecutionPlan.from_json(call("plan", f"{module}:views", "--format", "json").stdout)
    assert [stage.stage_id for stage in plan.stages] == ["views", "by-country"]


@pytest.mark.parametrize(("form", "start"), [("mermaid", "flowchart"), ("dot", "digraph")])
def test_pictures_go_into_a_file(module: str, tmp_path: Path, form: str, start: str) -> None:
    done = call("plan", f"{module}:views", "--format", form, "--output", f"pictures/plan.{form}")
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    text = (tmp_path / "pictures" / f"plan.{form}").read_text()
    assert text.startswith(start)


def test_a_file_that_cannot_be_written_is_rejected(module: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    done = call("plan", f"{module}:views", "--output", "taken/plan.txt")
    assert done.exit_code == 2
    assert "taken/plan.txt cannot be written" in done.stderr


def test_diff_names_what_changed_since_a_plan_in_a_file(module: str, tmp_path: Path) -> None:
    call("plan", f"{module}:views", "--format", "json", "--output", "plan.json")
    same = call("plan", f"{module}:views", "--diff", "plan.json")
    assert same.stdout.startswith("No difference to plan.json")
    write_application(tmp_path / f"{module}.py", partitions="partitions=7, ")
    os.utime(
        tmp_path / f"{module}.py", (1, 1)
    )  # otherwise the byte code of the same second is taken for the new source
    sys.modules.pop(module)
    changed = call("plan", f"{module}:views", "--diff", "plan.json")
    assert changed.exit_code == 0, changed.output
    assert changed.stdout.startswith("Different from plan.json")
    assert "7" in changed.stdout


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot be read: No such file"),
        ("{}", "does not hold a plan"),
        ("[1]", "does not hold a plan"),
        ("x", "does not hold a plan"),
    ],
)
def test_a_file_without_a_plan_is_rejected(module: str, tmp_path: Path, text: str | None, sentence: str) -> None:
    if text is not None:
        (tmp_path / "plan.json").write_text(text)
    done = call("plan", f"{module}:views", "--diff", "plan.json")
    assert done.exit_code == 2
    assert f"plan.json {sentence}" in done.stderr


def test_diff_last_takes_the_newest_plan_of_a_run(module: str) -> None:
    from airflow_samza.cli.environment import parse_system
    from airflow_samza.launch.runtime import SparkRuntime

    assert "There is no earlier plan of 'views'" in call("plan", f"{module}:views", *BOUND, "--diff", "last").stderr
    sys.path.insert(0, ".")
    runtime = SparkRuntime("root", dict(parse_system(option) for option in (BOUND[3], BOUND[5])))
    runtime.prepare(RunRequest(f"{module}:views", "first"))
    runtime.prepare(RunRequest(f"{module}:views", "second", config={"job.intermediate.stream.partitions": "5"}))
    done = call("plan", f"{module}:views", *BOUND, "--diff", "last")
    assert done.stdout.startswith("Different from the plan of run second")
    same = call("plan", f"{module}:views", *BOUND, "--config", "job.intermediate.stream.partitions=5", "--diff", "last")
    assert same.stdout.startswith("No difference to the plan of run second")


def test_a_path_over_the_data_interval_needs_one(module: str, tmp_path: Path) -> None:
    write_application(tmp_path / f"{module}.py", path="{data_interval_start:%Y-%m-%d}")
    done = call("plan", f"{module}:views", *BOUND)
    assert done.exit_code == 2
    assert "--interval" in done.stderr
    (tmp_path / "data" / "views").rename(tmp_path / "data" / "2026-01-01")
    given = call("plan", f"{module}:views", *BOUND, "--interval", "2026-01-01/2026-01-02")
    assert given.exit_code == 0, given.output


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("{data_interval_start:%Y-%m-%d}", "2026-01-01"),
        ("{data_interval_start:%Y/%m/%d|America/New_York}", "2025/12/31"),
    ],
)
def test_a_path_follows_utc_or_the_zone_that_it_names(module: str, tmp_path: Path, path: str, folder: str) -> None:
    write_application(tmp_path / f"{module}.py", path=path)
    (tmp_path / "data" / folder).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "data" / "views").rename(tmp_path / "data" / folder)
    for interval in ("2026-01-01T03:00/2026-01-01T04:00", "2025-12-31T22:00-05:00/2025-12-31T23:00-05:00"):
        given = call("plan", f"{module}:views", *BOUND, "--interval", interval)
        assert given.exit_code == 0, given.output


@pytest.mark.parametrize("interval", ["2026-01-01", "2026-01-01/", "/2026-01-01", "a/b", "2026-01-02/2026-01-01"])
def test_an_interval_that_is_none_is_rejected(module: str, interval: str) -> None:
    done = call("plan", f"{module}:views", *BOUND, "--interval", interval)
    assert done.exit_code == 2
    assert "Hint:" in done.stderr


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("views", "does not name an application"),
        ("MODULE:nope", "has no 'nope'"),
        ("MODULE:not_an_application", "not an application"),
        ("no_such_module:views", "There is no module 'no_such_module'"),
        ("", "does not name an application"),
    ],
)
def test_an_application_that_is_none_is_rejected(module: str, name: str, sentence: str) -> None:
    done = call("plan", name.replace("MODULE", module))
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: ")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_input_is_named(module: str) -> None:
    done = call(
        "plan",
        f"{module}:views",
        "--root",
        "root",
        "--system",
        "logs=files:elsewhere",
        "--system",
        "warehouse=files:out",
    )
    assert done.exit_code == 2
    assert "views" in done.stderr


def test_a_system_that_nothing_binds_is_named(module: str) -> None:
    done = call("plan", f"{module}:views", "--root", "root")
    assert done.exit_code == 2
    assert "logs" in done.stderr


@pytest.mark.parametrize("arguments", [("--format", "pdf"), ("--diff", "last", "--format", "dot")])
def test_a_form_that_there_is_not_is_rejected(module: str, arguments: tuple[str, ...]) -> None:
    done = call("plan", f"{module}:views", *arguments)
    assert done.exit_code == 2
    assert "--format" in done.stderr
    assert "Hint:" in done.stderr
