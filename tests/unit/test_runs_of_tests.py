"""Rules of ``python -m tests``: what fails once, what a continued run leaves out, what is counted."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import __main__ as runs
from tests.__main__ import FAILED, TRIED_AGAIN, Run
from tests.support import outcomes
from tests.support.outcomes import Outcome

TESTS_OF_ALL = Path(__file__).parents[1]
TESTS = """
import os
from pathlib import Path

import pytest


def passes_from_the_second_try_on(name):
    seen = Path(__file__).with_name(name)
    tried = seen.exists()
    seen.touch()
    return tried


@pytest.mark.parametrize("text", ["a", "[b]::c d"])
def test_passes(text):
    with Path(__file__).with_name("ran").open("a") as ran:
        ran.write(text + ",")


def test_is_skipped():
    pytest.skip("for a reason")


def test_is_flaky():
    assert passes_from_the_second_try_on("flaky"), "the first time"


@pytest.fixture
def closed():
    yield
    assert passes_from_the_second_try_on("closed"), "when it ends"


def test_fails_in_its_fixture(closed):
    pass


def test_loses_its_process():
    if not passes_from_the_second_try_on("lost"):
        os._exit(9)


def test_fails():
    assert not Path(__file__).with_name("broken").exists(), "again and again"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with tests of each kind; a file ``broken`` in it makes one of them fail for good."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_kinds.py").write_text(TESTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    return tmp_path


def test_a_failed_test_runs_once_more_alone_and_is_named_flaky_if_it_passes(folder: Path) -> None:
    (folder / "broken").touch()
    run = Run("test", known=False)
    assert run.tests(["-n", "1"], {}) == FAILED
    flaky = run.try_again()
    assert {(outcome.test, reason in outcome.traceback) for outcome, reason in zip(flaky, REASONS, strict=True)} == {
        ("test_kinds.py::test_is_flaky", True),
        ("test_kinds.py::test_fails_in_its_fixture", True),
        ("test_kinds.py::test_loses_its_process", True),
    }
    assert [outcome.test for outcome in run.failed()] == ["test_kinds.py::test_fails"]
    assert run.last_line(flaky, 61).startswith("5 passed, 1 failed, 1 skipped, 3 flaky in 1 min 1 s; the log: ")
    assert run.skipped() == ["1 skipped: for a reason"]

    (folder / "broken").unlink()
    (folder / "ran").unlink()
    further = Run("test", known=True)
    assert further.tests(["-n", "1"], {}) == 0
    assert not (folder / "ran").exists()
    assert further.last_line([], 1).startswith("6 passed, 0 failed, 1 skipped, 5 of them in runs before in 0 min 1 s; ")


REASONS = ["the first time", "when it ends", "crashed"]


def test_many_failed_tests_do_not_run_again(folder: Path) -> None:
    run = Run("test", known=False)
    for number in range(TRIED_AGAIN + 1):
        outcomes.write(folder / "build/tests/test.jsonl", Outcome(f"test_kinds.py::test_{number}", "failed"))
    assert run.try_again() == []
    assert len(run.failed()) == TRIED_AGAIN + 1


def test_a_file_of_tests_that_cannot_be_read_has_failed(folder: Path) -> None:
    (folder / "test_kinds.py").write_text("import no_such_module\n")
    run = Run("test", known=False)
    assert run.tests(["-n", "1"], {}) != 0
    assert run.try_again() == []
    assert [outcome.test for outcome in run.failed()] == ["test_kinds.py"]


def test_tests_on_servers_are_collected_from_their_files_alone(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    spark: needs Java\n")
    (folder / "test_on_spark.py").write_text("import pytest\n\n@pytest.mark.spark\ndef test_it():\n    pass\n")
    run = Run("test", known=False)
    assert run.tests(["-n", "2", "-m", "not spark", "-k", "passes"], {}) == 0
    assert run.files_on_servers() == ["test_on_spark.py"]


def test_suites_of_which_make_test_tries_a_share_are_tried_whole_at_night() -> None:
    """The marker ``random`` does that, and Hypothesis is known without it."""
    texts = {path: path.read_text(encoding="utf-8") for path in TESTS_OF_ALL.rglob("test_*.py")}
    shares = {
        path: text for path, text in texts.items() if re.search(r"^from tests.support.budgets .*\bshare\b", text, re.M)
    }
    assert len(shares) > 20
    assert [path.name for path, text in shares.items() if not re.search(r"\bmark\.random\b|hypothesis", text)] == []


def test_the_outcome_of_a_torn_line_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "test.jsonl"
    outcomes.write(file, Outcome("a", "failed", 1.5, "because"))
    outcomes.write(file, Outcome("a", "passed", 0.5))
    with file.open("a") as lines:
        lines.write('{"test": "b", "outc')
    assert outcomes.read(file) == {"a": Outcome("a", "passed", 0.5)}


def test_a_run_removes_what_killed_ones_have_left_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MEMORY", tmp_path)
    monkeypatch.setattr(runs, "ENOUGH", 0)
    ended = subprocess.Popen(["true"])
    ended.wait()
    for name, owner in (("t-left", ended.pid), ("t-at-work", os.getpid()), ("other", ended.pid)):
        (tmp_path / name).mkdir()
        (tmp_path / name / runs.OWNER).write_text(str(owner))
    with runs._files_in_memory():
        assert {path.name for path in tmp_path.iterdir()} >= {"t-at-work", "other"}
        assert not (tmp_path / "t-left").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"t-at-work", "other"}
