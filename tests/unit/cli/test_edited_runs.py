"""Runs whose application was edited between two acts: each is rejected, or ends as a run from scratch would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runner_without_spark import VARIABLE, Dials

PATIENCE = 120.0

APPLICATION = """
from pathlib import Path
from airflow_samza import count, max_, stream_application, sum_

SCHEMA = "country string, cents bigint"


def checked(batch):
    if Path({flag!r}).exists():
        raise ValueError("the callable fails")
    return batch


@stream_application("shop", config={{"job.intermediate.stream.partitions": "2"}})
def shop(app):
    sales = app.input_stream("sales", system="data", path="sales.csv", format="csv", schema=SCHEMA)
    parts = sales.partition_by("country", id="by-country")
    totals = parts.aggregate("country", id="totals", cents=sum_("cents"))
    out = app.output_stream("totals", system="data", path="out", format="json")
    totals.map_batches(checked, schema=SCHEMA).send_to(out)
"""

SUMS = {"ch": 18, "de": 22, "fr": 26}


class Shop:
    """The command line over a folder with an application, whose runners have no Spark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.flag = folder / "fails"
        self.dials = Dials(folder / "dials")
        rows = [f"{['ch', 'de', 'fr'][i % 3]},{i}" for i in range(12)]
        (folder / "sales.csv").write_text("\n".join(["country,cents", *rows, ""]))
        self.source = APPLICATION.format(flag=str(self.flag))
        self.write(self.source)

    def write(self, source: str) -> None:
        (self.folder / "shop_app.py").write_text(source)

    def edit(self, before: str, after: str) -> None:
        assert before in self.source
        self.source = self.source.replace(before, after)
        self.write(self.source)

    def run(self, *more: str, run_id: str = "one") -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(Path(__file__).parents[3]), str(self.folder)])
        command = ["-m", "tests.support.command_without_spark", "run", "shop_app:shop", "--run-id", run_id]
        place = ["--root", "root", "--system", f"data=files:{self.folder}"]
        return subprocess.run(
            [sys.executable, *command, *place, *more],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, "PYTHONPATH": path, VARIABLE: str(self.dials.folder)},
        )

    def fails(self) -> None:
        """A first run, of which the second stage fails."""
        self.flag.touch()
        found = self.run()
        assert found.returncode == 1
        assert "the callable fails" in found.stderr
        assert (
            "To resume it: airflow-samza run shop_app:shop --run-id one (with the same options, and --again only "
            "after a change of its input files or of what it declares)." in found.stderr
        )
        self.flag.unlink()

    @property
    def rows(self) -> dict[str, int]:
        lines = [line for file in (self.folder / "out").glob("*.json") for line in file.read_text().splitlines()]
        rows = [json.loads(line) for line in lines]
        assert len({row["country"] for row in rows}) == len(rows)
        return {row["country"]: row["cents"] for row in rows}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.extended
def test_a_resumed_run_is_rejected_whose_aggregation_was_edited(shop: Shop) -> None:
    shop.fails()
    shop.edit("cents=sum_", "cents=max_")
    found = shop.run()
    assert found.returncode == 2
    assert "was cents=sum(cents) and is cents=max(cents)" in found.stderr
    assert "--again" in found.stderr
    again = shop.run("--again")
    assert again.returncode == 0, again.stderr
    assert shop.rows == {"ch": 9, "de": 10, "fr": 11}


@pytest.mark.extended
def test_a_resumed_run_takes_a_callable_that_was_fixed(shop: Shop) -> None:
    shop.flag.touch()
    assert shop.run().returncode == 1
    shop.edit(f"if Path({str(shop.flag)!r}).exists()", "if batch.num_rows < 0")
    found = shop.run()
    assert found.returncode == 0, found.stderr
    assert shop.rows == SUMS


@pytest.mark.extended
def test_a_run_again_keeps_the_stages_before_an_edit(shop: Shop) -> None:
    assert shop.run().returncode == 0
    shop.edit("return batch\n", "return batch.slice(0, 0)\n")
    found = shop.run("--again")
    assert found.returncode == 0, found.stderr
    assert "kept from generation 1.1" in found.stderr
    assert "runs: its callables changed" in found.stderr
    assert "Stage sales (partition-by-country) keeps its result" in found.stderr
    assert shop.rows == {}


@pytest.mark.nightly
def test_a_run_again_keeps_everything_where_nothing_has_changed(shop: Shop) -> None:
    assert shop.run().returncode == 0
    found = shop.run("--again")
    assert found.returncode == 0, found.stderr
    assert found.stderr.count("kept from generation 1.1") == 2
    assert shop.rows == SUMS
    (shop.folder / "root" / "topics").rename(shop.folder / "root" / "taken-away")
    fresh = shop.run("--again", "--fresh")
    assert fresh.returncode == 0, fresh.stderr
    assert fresh.stderr.count("runs: the run was asked to run all stages") == 2
    assert shop.rows == SUMS


@pytest.mark.nightly
def test_a_run_again_writes_an_output_that_somebody_has_deleted(shop: Shop) -> None:
    assert shop.run().returncode == 0
    shutil.rmtree(shop.folder / "out")
    found = shop.run("--again")
    assert found.returncode == 0, found.stderr
    assert "runs: what it wrote to totals is there no more" in found.stderr
    assert "Stage sales (partition-by-country) keeps its result" in found.stderr
    assert shop.rows == SUMS


@pytest.mark.extended
def test_a_run_again_runs_what_an_input_has_changed_for(shop: Shop) -> None:
    assert shop.run().returncode == 0
    with (shop.folder / "sales.csv").open("a") as file:
        file.write("ch,100\n")
    found = shop.run("--again")
    assert found.returncode == 0, found.stderr
    assert "runs: input sales changed" in found.stderr
    assert shop.rows == {**SUMS, "ch": 118}


@pytest.mark.nightly
def test_a_failed_run_names_one_command_that_helps_where_an_input_file_has_changed(shop: Shop) -> None:
    shop.edit("sales.partition_by", "sales.map_batches(checked, schema=SCHEMA).partition_by")
    shop.fails()
    with (shop.folder / "sales.csv").open("a") as file:
        file.write("ch,100\n")
    found = shop.run()
    assert found.returncode == 2, found.stderr
    assert "sales.csv of stream 'sales' changed since the plan" in found.stderr
    assert "Hint: Run it again with --again, so that a new plan takes the files as they are now" in found.stderr
    assert "To resume it" not in found.stderr
    (told,) = [line for line in found.stderr.splitlines() if "airflow-samza run" in line]
    command = "To run it again: airflow-samza run shop_app:shop --run-id one --again (with the same options)."
    assert told == command
    again = shop.run("--again")
    assert again.returncode == 0, again.stderr
    assert shop.rows == {**SUMS, "ch": 118}


@pytest.mark.nightly
def test_a_run_again_runs_a_writer_whose_topic_is_deleted_and_somebody_reads(shop: Shop) -> None:
    assert shop.run().returncode == 0
    for topic in (shop.folder / "root").rglob("*by-country*"):
        if topic.is_dir() and "runs" not in topic.parts:
            topic.rename(topic.with_name("taken-away"))
            break
    shop.edit("return batch\n", "return batch.slice(0, 0)\n")
    found = shop.run("--again")
    assert found.returncode == 0, found.stderr
    assert "runs: its topic by-country is deleted, and a stage that runs has to read it" in found.stderr
    assert shop.rows == {}


@pytest.mark.nightly
def test_an_unrelated_file_beside_the_application_starts_no_second_runner(shop: Shop) -> None:
    shop.fails()
    (shop.folder / "unrelated.py").write_text("NOTHING = 1\n")
    found = shop.run()
    assert found.returncode == 0, found.stderr
    assert shop.rows == SUMS
    runners = list((shop.folder / "root" / "runs" / "shop" / "one" / "servers").iterdir())
    assert len(runners) == 1
