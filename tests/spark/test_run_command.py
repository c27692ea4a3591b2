"""``airflow-samza run``: a whole application on Spark from the command line, resumed, run again, and interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(600)]

APPLICATION = """
import os, time
from airflow_samza import count, stream_application

def kept(view):
    if os.path.exists("hold"):
        open("held", "w").close()
        while os.path.exists("hold"):
            time.sleep(0.1)
    return view.member > 1

@stream_application("views")
def views(app):
    source = app.input_stream("views", system="logs", schema="member bigint, country string", partitions=2, path="views")
    (
        source.filter(kept)
        .partition_by("country", id="by-country")
        .aggregate("country", views=count(), id="per-country")
        .send_to(app.output_stream("out", system="warehouse", path="out"))
    )
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "views_application.py").write_text(
        APPLICATION.replace('"hold"', repr(str(tmp_path / "hold"))).replace('"held"', repr(str(tmp_path / "held")))
    )
    (tmp_path / "data" / "views").mkdir(parents=True)
    (tmp_path / "data" / "views" / "1.jsonl").write_text(
        "".join(json.dumps({"member": member, "country": "NO" if member % 2 else "SE"}) + "\n" for member in range(10))
    )
    return tmp_path


def command(*more: str) -> list[str]:
    program = "from airflow_samza.cli import main; main()"
    systems = ["--system", "logs=files:data", "--system", "warehouse=files:warehouse"]
    return [
        sys.executable,
        "-c",
        program,
        "run",
        "views_application:views",
        "--root",
        "root",
        *systems,
        "--master",
        "local[2]",
        *more,
    ]


def run(project: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*more), cwd=project, capture_output=True, text=True)


def counted(project: Path) -> dict[str, int]:
    import duckdb

    rows = duckdb.execute(f"SELECT country, views FROM read_parquet('{project}/warehouse/out/*.parquet')").fetchall()
    assert len({country for country, _ in rows}) == len(rows), "a country is there twice"
    return dict(rows)


@pytest.mark.nightly
def test_a_run_writes_the_result_once_however_often_it_is_asked_for(project: Path) -> None:
    done = run(project, "--run-id", "first")
    assert done.returncode == 0, done.stderr
    assert counted(project) == {"NO": 4, "SE": 4}
    (log,) = (project / "root").rglob("runner.log")
    assert "succeeded after" in log.read_text()
    assert "FairSchedulableBuilder" not in log.read_text(), "a warning about each stage's pool tells a reader nothing"
    assert done.stdout.startswith("Run first of views succeeded in ")
    assert re.search(r"Stage views( \([\w-]+\))? is done: 2 tasks", done.stderr)
    resumed = run(project, "--run-id", "first", "--format", "json")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["generation"] == 1
    assert counted(project) == {"NO": 4, "SE": 4}
    (project / "data" / "views" / "2.jsonl").write_text('{"member": 5, "country": "DK"}\n')
    again = run(project, "--run-id", "first", "--again", "--format", "json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["generation"] == 2
    assert counted(project) == {"NO": 4, "SE": 4, "DK": 1}, "the second generation replaces the first"


@pytest.mark.nightly
def test_a_callable_that_raises_ends_the_run_with_its_place_in_the_code(project: Path) -> None:
    text = (
        (project / "views_application.py")
        .read_text()
        .replace("return view.member > 1", "return 1 / (view.member - 5) > 0")
    )
    (project / "views_application.py").write_text(text)
    done = run(project)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "division by zero" in done.stderr
    assert "views_application.py:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
def test_an_interrupted_run_cancels_its_work_and_can_be_resumed(project: Path) -> None:
    (project / "hold").touch()
    process = subprocess.Popen(
        command("--run-id", "held"), cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "running" in line:
                break
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    finally:
        (project / "hold").unlink()
        process.kill()
        process.wait()
    assert process.returncode == 130, errors
    assert errors.endswith("Interrupted.\n")
    resumed = run(project, "--run-id", "held")
    assert resumed.returncode == 0, resumed.stderr
    assert counted(project) == {"NO": 4, "SE": 4}


@pytest.mark.nightly
def test_stages_of_a_run_may_run_at_the_same_time_over_files(project: Path) -> None:
    done = run(
        project,
        "--run-id",
        "together",
        "--mode",
        "pipelined",
        "--config",
        "job.epoch.max.messages=2",
        "--format",
        "json",
    )
    assert done.returncode == 0, done.stderr
    assert counted(project) == {"NO": 4, "SE": 4}
    assert re.search(r"Stage by-country( \([\w-]+\))?: running", done.stderr)
    stages = {stage["stage_id"]: stage for stage in json.loads(done.stdout)["stages"]}
    assert stages["views"]["epochs"] > 2
    rejected = run(project, "--mode", "continuous")
    assert rejected.returncode == 2
    assert "has no unbounded input" in rejected.stderr


def lines_of(project: Path, run_id: str) -> str:
    """Return the log of the stage runner of a run."""
    (log,) = (project / "root").rglob(f"{run_id}*/**/runner.log")
    return log.read_text()


def test_a_small_run_starts_no_java(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SAMZA__WARM_RUNNERS", "off")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-Xlog:gc:file={project / 'java.log'}")
    done = run(project, "--run-id", "first")
    assert done.returncode == 0, done.stderr
    assert counted(project) == {"NO": 4, "SE": 4}
    log = lines_of(project, "first")
    assert log.count("beside the driver") == 2
    assert "Spark is up" not in log
    assert not (project / "java.log").exists()


@pytest.mark.nightly
def test_a_run_with_settings_of_spark_has_them_checked_however_small_it_is(project: Path) -> None:
    (project / "samza.toml").write_text(
        '[env.dev]\nroot = "root"\n[env.dev.spark]\n"spark.sql.shuffle.partitions" = "many"\n'
    )
    done = run(project, "--run-id", "first", "--config-file", "samza.toml")
    assert done.returncode != 0
    assert "spark.sql.shuffle.partitions" in done.stderr
    assert not list((project / "warehouse").rglob("*.parquet"))
