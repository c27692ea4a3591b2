"""A suite of an environment ends, and its result says how."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.matrix.combinations import SUITES
from tests.matrix.environments import search_path
from tests.matrix.trials import tried_command


@pytest.mark.extended
def test_a_suite_that_hangs_is_interrupted_and_has_failed(tmp_path: Path) -> None:
    program = "import signal; signal.pause()"
    done = tried_command([sys.executable, "-c", program], tmp_path, os.environ, tmp_path / "log", limit=1.0)
    assert (done.succeeded, done.counts) == (False, "ended after 1 s")


def test_a_failure_shows_the_counts_of_its_log(tmp_path: Path) -> None:
    program = "print('1 failed, 38 passed, 3 warnings in 844.73s (0:14:04)'); raise SystemExit(1)"
    done = tried_command([sys.executable, "-c", program], tmp_path, os.environ, tmp_path / "log")
    assert str(done) == "FAILED 1 failed, 38 passed"


def test_pythons_of_pyenv_are_found_though_its_shims_run_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "versions" / "3.12.1" / "bin"
    installed.mkdir(parents=True)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert search_path() == f"{os.environ['PATH']}{os.pathsep}{installed}"


def test_environments_that_run_side_by_side_share_no_folder() -> None:
    (demo,) = (suite for suite in SUITES if suite.name == "demo")
    assert demo.arguments[-2:] == ("--home", "{folder}")
