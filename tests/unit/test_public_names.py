"""The public names: each is listed for type checkers as it is for programs, and an editor knows its type."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_samza

ROOT = Path(__file__).parents[2]
CLASSES = [name for name in airflow_samza.__all__ if inspect.isclass(getattr(airflow_samza, name))]


def names_for_type_checkers() -> dict[str, str]:
    """Return the module of each public name, as the block for type checkers has them."""
    tree = ast.parse((ROOT / "airflow_samza" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in imports for alias in node.names), (
        "a name that is not exported is Any to others"
    )
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_type_checkers_and_programs_find_the_same_names_in_the_same_modules() -> None:
    homes = {name: f"airflow_samza.{home}" for home, names in airflow_samza._HOMES.items() for name in names}
    assert names_for_type_checkers() == homes


PROGRAM = [
    "import airflow_samza",
    *(f"reveal_type(airflow_samza.{name})" for name in airflow_samza.__all__),
    *(f"airflow_samza.{name}.no_such_name" for name in CLASSES),
    "airflow_samza.no_such_name",
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Return what mypy says of a user's program, by line. It goes by our configuration, so that ``make types`` has filled its cache."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.py").write_text("\n".join(PROGRAM))
    command = [sys.executable, "-m", "mypy", "--show-absolute-path", str(folder / "program.py")]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "MYPYPATH": str(folder)}, capture_output=True, text=True
    )
    found = re.findall(r"^.*/program\.py:(\d+): (?:note|error): (.*)$", done.stdout, flags=re.MULTILINE)
    assert found, done.stdout + done.stderr
    return {int(line): message for line, message in found}


def said_of(report: dict[int, str], line: str) -> str:
    return report.get(PROGRAM.index(line) + 1, "nothing")


@pytest.mark.parametrize("name", airflow_samza.__all__)
@pytest.mark.extended
def test_a_type_checker_knows_the_type_of(name: str, report: dict[int, str]) -> None:
    (revealed,) = re.findall(r'Revealed type is "(.*)"', said_of(report, f"reveal_type(airflow_samza.{name})"))
    assert revealed != "Any"
    assert not revealed.endswith("-> Any")


@pytest.mark.parametrize("name", CLASSES)
def test_a_type_checker_finds_a_wrong_attribute_of(name: str, report: dict[int, str]) -> None:
    assert 'has no attribute "no_such_name"' in said_of(report, f"airflow_samza.{name}.no_such_name")


def test_a_type_checker_finds_a_name_that_is_not_public(report: dict[int, str]) -> None:
    assert "has no attribute" in said_of(report, "airflow_samza.no_such_name")
