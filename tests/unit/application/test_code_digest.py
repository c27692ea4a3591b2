"""The digest of callables: what changes it, and what does not."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.application.code_digest import callable_digest
from tests.support.changing_modules import ChangingModules

BASE = """
import json
import re
from dataclasses import dataclass
from samza_digest_helpers import scale

RATE = 2
PATTERN = re.compile("a+")


@dataclass
class Money:
    cents: int

    def doubled(self):
        return self.cents * RATE


def step(row):
    return scale(row) + Money(1).doubled()


def clean(row):
    '''Clean a row.'''
    return json.dumps(step(row)) + PATTERN.pattern


def other(row):
    return row


def late(row):
    from samza_digest_helpers import shift

    return shift(row)
"""

HELPERS = """
def scale(value):
    return value * 3


def shift(value):
    return value + 1
"""


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    modules = ChangingModules(tmp_path, monkeypatch)

    def of(name: str = "clean", base: str = BASE, helpers: str = HELPERS) -> str | None:
        modules.write("samza_digest_helpers", helpers)
        modules.write("samza_digest_app", base)
        return callable_digest(getattr(importlib.import_module("samza_digest_app"), name))

    return of


def test_is_the_same_for_the_same_code(digest: Any) -> None:
    assert digest() == digest() is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return json.dumps(step(row))", "return json.dumps(step(row) + 1)"),
        ("RATE = 2", "RATE = 3"),
        ("return self.cents * RATE", "return self.cents"),
        ("scale(row) + Money(1)", "scale(row) + Money(2)"),
        ('re.compile("a+")', 're.compile("b+")'),
    ],
)
def test_changes_with_all_that_a_function_names(digest: Any, before: str, after: str) -> None:
    assert before in BASE
    assert digest(base=BASE.replace(before, after)) != digest()


def test_changes_with_a_function_of_another_module(digest: Any) -> None:
    assert digest(helpers=HELPERS.replace("value * 3", "value * 4")) != digest()


def test_changes_with_a_module_that_is_imported_when_the_function_is_called(digest: Any) -> None:
    assert digest("late", helpers=HELPERS.replace("value + 1", "value + 2")) != digest("late")


def test_does_not_change_with_what_a_function_does_not_name(digest: Any) -> None:
    changed = BASE.replace("    return row\n", "    return row * 2\n").replace(
        "import json", "import json\nMORE = 1\n\n"
    )
    assert digest(base=changed) == digest()


def test_changes_with_a_closure_and_defaults() -> None:
    def made(rate: int) -> Any:
        return lambda row, more=rate: row * rate + more

    assert callable_digest(made(1)) == callable_digest(made(1))
    assert callable_digest(made(1)) != callable_digest(made(2))


def test_ends_where_functions_name_each_other() -> None:
    def even(number: int) -> bool:
        return number == 0 or odd(number - 1)

    def odd(number: int) -> bool:
        return number != 0 and even(number - 1)

    assert callable_digest(even) is not None


def test_there_is_none_of_what_cannot_be_compared() -> None:
    lock = threading.Lock()

    def locked(row: Any) -> Any:
        with lock:
            return row

    def evaluated(row: Any) -> Any:
        return eval(row)

    def imported(row: Any) -> Any:
        return importlib.import_module(row)

    assert callable_digest(locked) is callable_digest(evaluated) is callable_digest(imported) is None


def test_is_the_same_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "samza_digest_helpers.py").write_text(HELPERS)
    (tmp_path / "samza_digest_app.py").write_text(
        BASE + "NAMES = {'a', 'b', 'c'}\n\n\ndef named(row):\n    return row in NAMES\n"
    )
    code = (
        "import samza_digest_app as app\n"
        "from airflow_samza.application.code_digest import callable_digest\n"
        "print(callable_digest(app.clean), callable_digest(app.named), callable_digest(app.late))\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": f"{tmp_path}:{Path.cwd()}", "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert "None" not in found.pop()
