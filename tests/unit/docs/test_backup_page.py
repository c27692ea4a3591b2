"""The procedures of docs/operate/backup.md, done with a real root: copied, lost, restored, continued, moved, and found incomplete."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.documentation_pages import text_of

pytestmark = pytest.mark.extended


HERE = Path(__file__).parents[3]

APPLICATION = """
from airflow_samza import count, stream_application, tumbling

@stream_application("views-per-hour")
def views_per_hour(app):
    views = app.input_stream(
        "views", system="logs", schema="country string, at timestamp", timestamp="at", max_delay="0 seconds",
        path="views/*.json", slice="checkpoint", partitions=1,
    )
    (
        views.partition_by("country", id="by-country")
        .window(tumbling("1 hour"), key="country", views=count(), id="hours")
        .send_to(app.output_stream("hours", system="warehouse"))
    )
"""


class Deployment:
    """A root, its input and its output in one folder; runs have no Spark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def command(self, *words: str, root: str = "root") -> subprocess.CompletedProcess[str]:
        systems = (
            ["--system", "logs=files:landing", "--system", "warehouse=files:warehouse"] if words[0] != "state" else []
        )
        return subprocess.run(
            [sys.executable, "-m", "tests.support.command_without_spark", *words, "--root", root, *systems],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": f"{HERE}:{self.folder}", "RUNNER_DIALS": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    def hour(self, hour: int, root: str = "root") -> None:
        """One more hour of input, and the run that reads it; it closes the hour before."""
        file = self.folder / "landing" / "views" / f"{hour:02}.json"
        file.write_text(json.dumps({"country": "NL", "at": f"2026-01-01T{hour:02}:10:00Z"}) + "\n")
        done = self.command("run", "views_per_hour:views_per_hour", "--run-id", f"r{hour}", root=root)
        assert done.returncode == 0, done.stderr

    def hours(self) -> Counter[int]:
        import pyarrow.dataset as ds

        rows = ds.dataset(self.folder / "warehouse" / "hours", format="parquet").to_table().to_pylist()
        return Counter(row["window_start"].hour for row in rows)

    def copy(self, *names: tuple[str, str]) -> None:
        for source, target in names:
            shutil.rmtree(self.folder / target, ignore_errors=True)
            shutil.copytree(self.folder / source, self.folder / target)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment of two runs with a copy of its root and of its output, and a third run after the copy."""
    deployment = Deployment(tmp_path_factory.mktemp("saved"))
    (deployment.folder / "views_per_hour.py").write_text(APPLICATION)
    (deployment.folder / "landing" / "views").mkdir(parents=True)
    deployment.hour(9)
    deployment.hour(10)
    deployment.copy(("root", "backup"), ("warehouse", "backup-warehouse"))
    deployment.hour(11)
    return deployment.folder


@pytest.fixture
def deployment(saved: Path, tmp_path: Path) -> Deployment:
    return Deployment(shutil.copytree(saved, tmp_path / "here"))


def test_a_root_that_is_restored_with_its_outputs_does_the_lost_work_once(deployment: Deployment) -> None:
    deployment.copy(("backup", "root"), ("backup-warehouse", "warehouse"))
    assert deployment.command("fsck").returncode == 0
    shown = deployment.command("state", "show", "views-per-hour").stdout
    assert "r10" in shown
    assert "r11" not in shown
    deployment.hour(12)
    assert deployment.hours() == {9: 1, 10: 1, 11: 1}


def test_a_root_that_is_older_than_its_outputs_writes_again_and_rejects_the_lost_run(deployment: Deployment) -> None:
    deployment.copy(("backup", "root"))
    said = deployment.command("run", "views_per_hour:views_per_hour", "--run-id", "r11").stderr
    assert text_of("operate/backup.md").split("```text\n")[1].split("\n```")[0].replace("r3", "r11") in said
    deployment.hour(12)
    assert deployment.hours() == {9: 1, 10: 2, 11: 1}


def test_fsck_names_what_to_remove_of_outputs_that_are_newer_than_the_root(deployment: Deployment) -> None:
    deployment.copy(("backup", "root"))
    done = deployment.command("fsck")
    assert done.returncode == 0, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "not on record" in line]
    for pattern in [word.rstrip(",.") for word in line.split() if "*" in word]:
        # The runs wrote to the deployment of which this one is a copy.
        found = list((deployment.folder / "warehouse").glob(pattern.partition("/warehouse/")[2]))
        assert found, pattern
        for file in found:
            file.unlink()
    deployment.hour(12)
    assert deployment.hours() == {9: 1, 10: 1, 11: 1}


def test_a_copy_continues_under_another_path(deployment: Deployment) -> None:
    deployment.copy(("root", "elsewhere"))
    shutil.rmtree(deployment.folder / "root")
    deployment.hour(12, root="elsewhere")
    assert deployment.hours() == {9: 1, 10: 1, 11: 1}


@pytest.mark.nightly
def test_a_copy_that_misses_a_file_is_found(deployment: Deployment) -> None:
    assert deployment.command("fsck", root="backup").returncode == 0
    missing = next((deployment.folder / "backup" / "state").rglob("*.arrow"))
    missing.unlink()
    done = deployment.command("fsck", root="backup")
    assert done.returncode == 1
    assert missing.name in done.stdout
