"""ARCHITECTURE.md speaks of the tree as it is: what it names is there, and every folder of the package is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "airflow_samza"
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
WORDS = sorted(set(re.findall(r"`([^`\s]+)`", TEXT)))


@pytest.mark.parametrize("name", [word for word in WORDS if re.fullmatch(r"[\w./]+\.(py|md)", word)])
def test_every_file_that_is_named_exists(name: str) -> None:
    assert (ROOT / name).exists() or (PACKAGE / name).exists() or ("/" not in name and list(PACKAGE.rglob(name)))


@pytest.mark.parametrize(
    "folder",
    sorted(
        path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE
    ),
)
def test_every_folder_of_the_package_is_named(folder: str) -> None:
    assert f"{folder}/" in WORDS or f"{folder.rpartition('/')[2]}/" in WORDS
