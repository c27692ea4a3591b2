"""Users install beside an Airflow that has the versions of its own constraints: the wheel moves none of them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.matrix.combinations import COMBINATIONS, Combination
from tests.matrix.environments import (
    CONSTRAINTS,
    ROOT,
    Environment,
    build_wheel,
    constraints_file,
    moved_pins,
    pins_in,
    run,
    search_path,
    uv,
)

NEWEST_OF = {one.airflow.rpartition(".")[0]: one for one in COMBINATIONS}
PAGE = ROOT / "docs" / "reference/compatibility.md"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


SPARK = """
from airflow_samza import stream_application

def spark_of(view):
    import pyspark
    return {"spark": pyspark.__version__}

@stream_application("seen")
def seen(app):
    views = app.input_stream("views", system="logs", schema="member bigint", partitions=1, path="views")
    views.map(spark_of, schema="spark string").send_to(app.output_stream("out", system="logs", path="out"))
"""


def commands_of_the_page() -> list[str]:
    """The commands with which the page has users install."""
    section = PAGE.read_text().partition("## Installing beside an Airflow that is there\n")[2].partition("\n## ")[0]
    return re.findall(r"^(pip .*)$", section, re.MULTILINE)


def combination_of_the_page() -> Combination:
    text = "\n".join(commands_of_the_page())
    (found,) = (
        one
        for one in COMBINATIONS
        if f"apache-airflow=={one.airflow}" in text
        and f"pyspark=={one.spark}" in text
        and f"/constraints-{one.airflow}/constraints-{one.python}.txt" in text
    )
    return found


def test_the_page_installs_a_combination_of_the_matrix() -> None:
    assert len(commands_of_the_page()) == 3
    assert combination_of_the_page() in COMBINATIONS


def test_the_files_of_constraints_are_found_by_both_of_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = COMBINATIONS[:2]
    monkeypatch.delenv(CONSTRAINTS, raising=False)
    assert constraints_file(one) is None
    monkeypatch.setenv(CONSTRAINTS, str(tmp_path))
    flat = tmp_path / f"constraints-{one.airflow}-python{one.python}.txt"
    nested = tmp_path / f"constraints-{other.airflow}" / f"constraints-{other.python}.txt"
    nested.parent.mkdir()
    flat.touch()
    nested.touch()
    assert (constraints_file(one), constraints_file(other)) == (flat, nested)


def test_rejects_a_folder_of_constraints_that_lacks_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONSTRAINTS, str(tmp_path))
    with pytest.raises(
        RuntimeError, match=r"AIRFLOW_CONSTRAINTS names .* neither constraints-3\.1\.0-python3\.10\.txt"
    ):
        constraints_file(COMBINATIONS[0])


def write_constraints(combination: Combination, folder: Path) -> Path:
    """A file as Airflow publishes one: pins of more than Airflow itself needs, of some days after the release."""
    folder.mkdir(parents=True)
    wanted = folder / "wanted.in"
    wanted.write_text(f"apache-airflow[postgres,celery]=={combination.airflow}\npandas\n")
    day = combination.published + timedelta(days=8)
    text = run(
        uv(), "pip", "compile", str(wanted), "--python-version", combination.python, "--exclude-newer", day.isoformat(),
        "--quiet", "--no-header", "--no-annotate", "--no-strip-extras",
    )  # fmt: skip
    found = folder / f"constraints-{combination.python}.txt"
    found.write_text("".join(f"{name}=={version}\n" for name, version in pins_in(text).items()))
    return found


@pytest.mark.nightly
def test_the_commands_of_the_page_move_no_version_that_airflows_constraints_have_set(
    wheel: Path, tmp_path: Path
) -> None:
    combination = combination_of_the_page()
    constraints = write_constraints(combination, tmp_path / "constraints")
    venv = tmp_path / "venv"
    run(uv(), "venv", "--quiet", "--seed", "--python", combination.python, str(venv), path=search_path())
    first, *others = (
        re.sub(r"https://\S+?\.txt", str(constraints), command).replace("airflow-samza", shlex.quote(str(wheel)))
        for command in commands_of_the_page()
    )
    path = f"{venv / 'bin'}:{search_path()}"
    program = str(venv / "bin" / "python")

    def versions() -> dict[str, str]:
        return pins_in(run(uv(), "pip", "freeze", "--quiet", "--python", program))

    def enter(command: str) -> None:
        run("sh", "-c", f"cd {shlex.quote(str(tmp_path))} && {command}", path=path)

    enter(first)
    before = versions()
    pinned = pins_in(constraints.read_text())
    assert before["apache-airflow"] == combination.airflow
    assert {name: version for name, version in before.items() if pinned.get(name, version) != version} == {}
    for command in others:
        enter(command)
    after = versions()
    assert moved_pins(before, after) == []
    assert after["pyspark"] == after["pyspark-client"] == combination.spark
    run(program, "-m", "pip", "check")
    assert "The wheel works." in run(program, "-I", str(ROOT / "scripts" / "check_wheel.py"), str(wheel))
    run(program, "-I", str(ROOT / "benchmarks" / "parse_cost.py"))  # fails when parsing a Dag file costs too much


@pytest.mark.nightly
def test_a_stage_runs_on_the_spark_of_the_environment_that_the_page_makes(wheel: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs/get-started/install.md").read_text()
    commands = page.partition("<!-- example: newer spark -->\n```console\n")[2].partition("```")[0].splitlines()
    assert len(commands) == 3
    for command in commands:
        run("sh", "-c", f"cd {tmp_path} && {command.replace('airflow-samza', shlex.quote(str(wheel)))}")
    (tmp_path / "newer_spark.py").write_text(SPARK)
    (tmp_path / "data/views").mkdir(parents=True)
    (tmp_path / "data/views/1.jsonl").write_text('{"member": 1}\n')
    program = [sys.executable, "-c", "from airflow_samza.cli import main; main()", "run", "newer_spark:seen"]
    # Without a Spark job, a stage of one message would start no Spark.
    options = ["--system", "logs=files:data", "--root", "root", "--config", "job.driver.max.messages=0"]
    place = ["--master", "local[1]", "--runner-python", "spark-4.3/bin/python"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*program, *options, *place], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {row["spark"] for row in pq.read_table(tmp_path / "data/out").to_pylist()} == {"4.3.0"}


@pytest.mark.nightly
@pytest.mark.parametrize("combination", NEWEST_OF.values(), ids=lambda one: one.name)
def test_the_wheel_moves_no_version_of_airflows_own_and_works(
    combination: Combination, wheel: Path, tmp_path: Path
) -> None:
    environment = Environment(combination, tmp_path)
    environment.build(wheel)  # fails when a pin moves, or when two requirements contradict each other
    installed = environment.versions()
    assert installed["apache-airflow"] == combination.airflow
    assert installed["pyspark"] == installed["pyspark-client"] == combination.spark
    said = run(str(environment.python), "-I", str(ROOT / "scripts" / "check_wheel.py"), str(wheel))
    assert f"Airflow {combination.airflow} has the provider" in said


@pytest.mark.nightly
def test_an_environment_is_made_with_the_files_of_constraints_that_are_named(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    combination = COMBINATIONS[0]
    constraints = write_constraints(combination, tmp_path / f"constraints-{combination.airflow}")
    pinned = pins_in(constraints.read_text())
    monkeypatch.setenv(CONSTRAINTS, str(tmp_path))
    environment = Environment(combination, tmp_path / "environments")
    environment.build(wheel)
    installed = environment.versions()
    assert moved_pins({name: pinned[name] for name in pinned if name in installed}, installed) == []
    assert len(pinned.keys() & installed.keys()) > 100
