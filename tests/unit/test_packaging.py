"""Facts about the package agree wherever they stand: its version, the Pythons that it runs on."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from airflow_samza.launch.spark_versions import PAIRS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = [
    found[1]
    for line in PROJECT["project"]["classifiers"]
    if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
]


def test_the_version_is_written_once() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "airflow_samza/__init__.py"


def test_the_oldest_python_is_the_oldest_everywhere() -> None:
    oldest = PYTHONS[0]
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    assert PROJECT["tool"]["mypy"]["python_version"] == oldest
    assert PROJECT["tool"]["ruff"]["target-version"] == "py" + oldest.replace(".", "")


def test_setup_looks_for_every_supported_python() -> None:
    candidates = re.search(r"for candidate in (.*); do", (ROOT / "scripts" / "setup.sh").read_text())
    assert candidates is not None
    assert {f"python{python}" for python in PYTHONS} <= set(candidates[1].split())


@pytest.mark.parametrize("page", ["reference/compatibility.md", "project/releasing.md"])
def test_pages_name_the_pythons_of_the_classifiers(page: str) -> None:
    named = set(re.findall(r"\b3\.1\d\b", (ROOT / "docs" / page).read_text()))
    assert named | {"3.11"} == set(PYTHONS)  # the Python of all other tests needs no environment of its own


@pytest.mark.parametrize("name", ["pyspark", "pyspark-client"])
def test_the_releases_of_spark_that_errors_name_are_those_that_the_package_requires(name: str) -> None:
    required = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
    (allowed,) = (one.specifier for one in required if one.name == name)
    assert all(allowed.contains(version) for version in PAIRS.values())
    major, minor = max(PAIRS)
    assert not allowed.contains(f"{major}.{minor + 1}.0")
    assert not allowed.contains(f"{min(PAIRS)[0] - 1}.99.0")
