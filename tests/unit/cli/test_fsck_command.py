"""``airflow-samza fsck``: a root of many kinds of files, each of which is damaged in turn."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from airflow_samza.cli.app import app
from airflow_samza.errors import TopicError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.systems.filesystems.filesystem import TEMPORARY_PREFIX, root_identity
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemBinding
from tests.support.budgets import extended_but
from tests.support.looping import APPLICATION, Place
from tests.support.without_spark import run_stage

FILES = """
@stream_application("kept")
def kept(app):
    lines = app.input_stream("lines", system="log", schema=LINE, partitions=2, bounded=False)
    lines.send_to(app.output_stream("files", system="lake", path="out", format="parquet"))
    lines.send_to(app.output_stream("copy", system="log", schema=LINE, partitions=2, key="word"))
    counted = lines.partition_by("word", id="by-word").aggregate("word", lines=count(), id="per-word")
    counted.send_to(app.output_stream("counts", system="log", partitions=2, key="word"))
"""

HARMLESS = ("heartbeat.json", "claim.json", "status.json", "closed.json", "origin.json", ".zip", ".log", "program.json")
"""Names of files whose damage loses nothing: they only tell, or are made again."""


class Root:
    """A root with topics, the records of a run, its state, and its files."""

    def __init__(self, folder: Path) -> None:
        (folder / "looping_app.py").write_text(APPLICATION + FILES)
        self.place = Place(folder)
        self.root = folder / "root"
        self.lake = folder / "lake"
        self.systems = {"lake": SystemBinding("files", {"root": str(self.lake)})}
        runtime = SparkRuntime(str(self.root), self.systems)
        for number in range(2):
            self.place.send(number * 40, 40)
            run = runtime.prepare(RunRequest("looping_app:kept", f"run-{number}"))
            for stage in run.plan.stages:
                run_stage(runtime, run, stage.stage_id, 1, self.systems)
            runtime.close(run)

    def fsck(self, *options: str) -> Result:
        bound = ["--root", str(self.root), "--system", f"lake=files:{self.lake}"]
        return CliRunner().invoke(app, ["fsck", *bound, *options])

    def files(self) -> list[Path]:
        """All that a reader may need."""
        found = [*self.root.rglob("*"), *self.lake.rglob("*")]
        return sorted(
            path
            for path in found
            if path.is_file() and not path.name.endswith(HARMLESS) and not path.name.startswith(TEMPORARY_PREFIX)
        )


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("fsck")
    sys.path.insert(0, str(folder))
    sys.modules.pop("looping_app", None)
    yield Root(folder).root.parent
    sys.path.remove(str(folder))
    sys.modules.pop("looping_app", None)


@pytest.fixture
def root(template: Path) -> Iterator[Root]:
    """The root, which is afterwards as it was."""
    kept = template.with_name(f"{template.name}-kept")
    shutil.copytree(template, kept)
    made = Root.__new__(Root)
    made.root, made.lake = template / "root", template / "lake"
    yield made
    shutil.rmtree(template)
    kept.rename(template)


def test_a_root_that_nothing_has_befallen_is_sound(root: Root) -> None:
    done = root.fsck()
    assert done.exit_code == 0, done.output
    assert " 0 damaged." in done.stdout
    kinds = {path.relative_to(root.root.parent).parts[1] for path in root.files()}
    assert {"topics", "runs", "state", "out"} <= kinds


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", extended_but([cut_off], [cut_off, emptied]))
@pytest.mark.extended
def test_no_file_can_be_damaged_unnoticed(root: Root, damage: Callable[[Path], None]) -> None:
    unnoticed = []
    for path in root.files():
        whole = path.read_bytes()
        damage(path)
        done = root.fsck()
        left_over = (
            path.is_relative_to(root.root / "runs") and path.suffix == ".arrow"
        )  # state of stages that are over: the lineage has its own
        if done.exit_code != (0 if left_over else 1) or path.name.removesuffix(".json") not in done.stdout:
            unnoticed.append((str(path.relative_to(root.root.parent)), done.output))
        path.write_bytes(whole)
    assert not unnoticed, "\n".join(f"{path}: {told}" for path, told in unnoticed)


def test_damage_of_what_only_tells_is_mentioned_and_no_loss(root: Root) -> None:
    for path in (root.root / "runs").rglob("closed.json"):
        path.write_bytes(b"{")
    done = root.fsck()
    assert done.exit_code == 0, done.output
    assert "it only tells" in done.stdout


def test_state_files_that_retention_takes_from_stages_that_are_over_are_not_missed(root: Root) -> None:
    states = [path for path in (root.root / "runs").rglob("*.arrow") if "state" in path.parts]
    assert states
    for path in states:
        path.unlink()
    done = root.fsck()
    assert done.exit_code == 0, done.output
    assert "is missing" not in done.stdout


def test_a_topic_whose_last_commits_were_deleted_is_not_sound(root: Root) -> None:
    """The remaining files have no gap; the records of the runs know better."""
    topic = "copy"
    commits = sorted((root.root / "topics" / topic / "commits").glob("*.json"))
    assert len(commits) == 2
    commits[-1].unlink()
    done = root.fsck()
    assert done.exit_code == 1, done.output
    assert f"topic {topic}: damaged" in done.stdout
    assert "says was published" in done.stdout
    topics = CliRunner().invoke(app, ["topics", "fsck", topic, "--root", str(root.root)])
    assert topics.exit_code == 1
    assert "says was published" in topics.stdout


def test_files_of_outputs_and_of_state_that_are_missing_are_named(root: Root) -> None:
    part = next((root.lake / "out").glob("part-*"))
    part.unlink()
    state = next(path for path in (root.root / "state").rglob("*.arrow") if path.stat().st_size)
    state.unlink()
    done = root.fsck()
    assert done.exit_code == 1
    assert f"{part} is missing" in done.stdout
    assert f"{state} is missing" in done.stdout


def test_files_of_a_run_that_is_newer_than_all_on_record_are_named_and_no_damage(root: Root) -> None:
    shutil.rmtree(root.root / "runs" / "kept" / "run-1")
    done = root.fsck()
    (line,) = [line for line in done.stdout.splitlines() if "not on record" in line]
    files = [path for path in (root.lake / "out").glob("part-*") if f"/part-*-{path.name.split('-')[2]}-*" in line]
    assert len(files) == len(list((root.lake / "out").glob("part-*"))) / 2
    assert f"output {root.lake / 'out'}: sound" in done.stdout


def test_files_of_runs_that_retention_has_deleted_are_not_mentioned(root: Root) -> None:
    shutil.rmtree(root.root / "runs" / "kept" / "run-0")
    assert "not on record" not in root.fsck().stdout


def test_files_of_runs_are_not_mentioned_where_a_plan_cannot_be_read(root: Root) -> None:
    shutil.rmtree(root.root / "runs" / "kept" / "run-1")
    for plan in (root.root / "runs" / "kept" / "run-0").glob("plan/*.json"):
        plan.write_bytes(b"{")
    assert "not on record" not in root.fsck().stdout


def test_damaged_records_of_pushed_tables_are_named(root: Root) -> None:
    folder = root.root / "tables" / "log" / "profiles" / "versions"
    folder.mkdir(parents=True)
    (folder / f"{1:020}.json").write_text('{"number": 1}')
    done = root.fsck()
    assert done.exit_code == 1
    assert f"table log.profiles: damaged\n  {folder}/{1:020}.json is damaged: it has no" in done.stdout


def test_damaged_records_of_tables_that_outputs_have_made_are_named(root: Root) -> None:
    folder = root.root / "made-tables"
    folder.mkdir()
    (folder / "1.json").write_text('{"kind": "delta", "table": "web.clicks", "location": "/lake/web/clicks"}')
    (folder / "2.json").write_text("{")
    done = root.fsck()
    assert done.exit_code == 1
    assert "1.json" not in done.stdout
    assert f"made table 2.json: damaged\n  {folder}/2.json is damaged: it is not a JSON object" in done.stdout
    assert "Restore the file, or delete it: then nobody expires the table's past." in done.stdout


def test_programs_get_an_object_for_each_thing_that_was_looked_at(root: Root) -> None:
    found = [json.loads(line) for line in root.fsck("--json").stdout.splitlines()]
    assert {look["kind"] for look in found} >= {"topic", "run", "state", "output"}
    assert all(look["sound"] for look in found)
    commits = sorted((root.root / "topics").rglob("commits/*.json"))
    commits[0].unlink()
    done = root.fsck("--json")
    (damaged,) = [look for look in map(json.loads, done.stdout.splitlines()) if not look["sound"]]
    assert done.exit_code == 1
    assert damaged["kind"] == "topic"
    assert any(finding["serious"] and finding["remedy"] for finding in damaged["findings"])


@pytest.mark.parametrize("content", ["{", "{}", '{"identity": ""}', "[]"])
def test_a_damaged_identity_of_the_root_is_named_by_fsck_and_by_who_asks_for_it(tmp_path: Path, content: str) -> None:
    files = open_filesystem(str(tmp_path))
    identity = root_identity(files)
    assert root_identity(files) == identity
    sound = CliRunner().invoke(app, ["fsck", "--root", str(tmp_path)])
    assert (sound.exit_code, "0 damaged" in sound.output) == (0, True)
    (tmp_path / "identity.json").write_text(content)
    done = CliRunner().invoke(app, ["fsck", "--root", str(tmp_path)])
    assert done.exit_code == 1
    assert "root identity.json: damaged" in done.output
    with pytest.raises(TopicError, match="The identity of the root is damaged") as error:
        root_identity(files)
    assert "Restore the file from a backup" in error.value.hint
