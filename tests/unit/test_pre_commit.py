"""The hooks before a commit: pinned, and of the same versions that ``make lint`` and ``make types`` run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
REPOSITORIES: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
LOCAL: list[dict[str, Any]] = [
    hook for repository in REPOSITORIES if repository["repo"] == "local" for hook in repository["hooks"]
]


def test_every_foreign_repository_is_pinned_to_a_release() -> None:
    foreign = {repository["repo"]: repository["rev"] for repository in REPOSITORIES if repository["repo"] != "local"}
    assert [url for url, rev in foreign.items() if not re.fullmatch(r"v?\d+\.\d+\.\d+", rev)] == []


@pytest.mark.parametrize("hook", LOCAL, ids=lambda hook: str(hook["id"]))
def test_local_hooks_run_what_the_development_environment_has(hook: dict[str, Any]) -> None:
    python, minus_m, module, *_ = hook["entry"].split()
    assert (python, minus_m) == (".venv/bin/python", "-m")
    assert importlib.util.find_spec(module) is not None


def test_linter_formatter_and_type_checker_are_among_the_hooks() -> None:
    assert {"ruff-check", "ruff-format", "mypy"} <= {hook["id"] for hook in LOCAL}
