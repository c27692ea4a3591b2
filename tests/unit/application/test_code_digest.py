"""The digest of callables: what changes it, and what does not."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.application import code_digest as code_digests
from airflow_samza.application.code_digest import CodeDigests, Place
from tests.support.changing_modules import ChangingModules

BASE = """
import json
import logging
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from functools import singledispatch
from typing import NamedTuple

import samza_digest_effects
from samza_digest_helpers import scale

log = logging.getLogger(__name__)
RATE = 2
PATTERN = re.compile("a+")


class Priced:
    extra = 1


@dataclass
class Money(Priced):
    cents: int
    more: int = 5

    def doubled(self):
        return self.cents * RATE + self.extra


class Rates(NamedTuple):
    low: int

    def of(self, row):
        return self.low + row


class Kind(Enum):
    PLAIN = 1

    def weight(self):
        return 7


RATES = Rates(3)
KIND = Kind.PLAIN


@singledispatch
def price(value):
    return 1


@price.register
def _(value: int):
    return 2


price.rate = 4


def inner(row):
    return row + 8


STEPS = OrderedDict(inner=inner)


def timed(function):
    def wrapper(row):
        return function(row) + 9

    return wrapper


@timed
def decorated(row):
    return row


def step(row):
    return scale(row) + Money(1).doubled()


def clean(row):
    '''Clean a row.'''
    log.info("cleaning")
    found = RATES.of(row) + KIND.weight() + price(row) + price.rate + STEPS["inner"](row) + decorated(row)
    return json.dumps(step(row) + found) + PATTERN.pattern


def other(row: Money, kind: Kind = None) -> Money:
    log.info("another operator")
    return row


def late(row):
    from samza_digest_helpers import shift

    return shift(row)


def described(app):
    app.map(clean, id="clean").filter(other).map(lambda row: row + 1)
"""

HELPERS = """
def scale(value):
    return value * 3


def shift(value):
    return value + 1
"""

EFFECTS = """
import samza_digest_helpers

samza_digest_helpers.scale.factor = 1
"""

Of = Callable[..., str | None]


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Of:
    modules = ChangingModules(tmp_path, monkeypatch)

    def of(name: str = "clean", base: str = BASE, helpers: str = HELPERS, effects: str = EFFECTS) -> str | None:
        modules.write("samza_digest_helpers", helpers)
        modules.write("samza_digest_effects", effects)
        modules.write("samza_digest_app", base)
        found = getattr(importlib.import_module("samza_digest_app"), name)
        return CodeDigests("samza_digest_app").of(found)

    return of


def test_is_the_same_for_the_same_code(digest: Of) -> None:
    assert digest() == digest() is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return json.dumps(step(row)", "return json.dumps(1 + step(row)"),
        ("RATE = 2", "RATE = 3"),
        ("return self.cents * RATE", "return self.cents"),
        ("scale(row) + Money(1)", "scale(row) + Money(2)"),
        ('re.compile("a+")', 're.compile("b+")'),
        pytest.param("self.low + row", "self.low - row", id="a method of a NamedTuple whose instance is a global"),
        pytest.param("return 7", "return 6", id="a method of an Enum whose member is a global"),
        pytest.param("    return 2\n", "    return 3\n", id="an overload of singledispatch"),
        pytest.param("price.rate = 4", "price.rate = 5", id="an attribute of a function"),
        pytest.param("row + 8", "row + 7", id="a function in an OrderedDict"),
        pytest.param("more: int = 5", "more: int = 6", id="the default of a dataclass"),
        pytest.param("function(row) + 9", "function(row) + 8", id="a decorator"),
        pytest.param("PLAIN = 1", "PLAIN = 2", id="a class attribute"),
        pytest.param("extra = 1", "extra = 2", id="a base class"),
    ],
)
def test_changes_with_all_that_a_function_reaches(digest: Of, before: str, after: str) -> None:
    assert before in BASE
    assert digest(base=BASE.replace(before, after)) != digest()


def test_changes_with_another_module(digest: Of) -> None:
    assert digest(helpers=HELPERS.replace("value * 3", "value * 4")) != digest()


def test_changes_with_a_module_that_changes_another(digest: Of) -> None:
    assert digest(effects=EFFECTS.replace("factor = 1", "factor = 2")) != digest()


def test_changes_with_a_module_that_is_imported_when_the_function_is_called(digest: Of) -> None:
    assert digest("late", helpers=HELPERS.replace("value + 1", "value + 2")) != digest("late")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("    return row\n\n\ndef late", "    return row * 2\n\n\ndef late", id="another operator"),
        pytest.param('id="clean"', 'id="cleaned"', id="where it is used"),
        pytest.param("lambda row: row + 1", "lambda row: row + 2", id="a lambda beside it"),
        pytest.param("RATE = 2", "# two\n\n\nRATE   =   2  # doubled", id="a comment and layout"),
        pytest.param("import json", "import json\nMORE = 1", id="another name"),
    ],
)
def test_stays_with_what_a_function_does_not_reach(digest: Of, before: str, after: str) -> None:
    assert before in BASE
    assert digest(base=BASE.replace(before, after)) == digest()


@pytest.mark.parametrize(
    "doubt", ["return eval('RATE')", "return globals()['RATE']", "return vars()['RATE'] if 0 else 0"]
)
def test_is_of_the_whole_module_where_any_name_of_it_may_be_meant(digest: Of, doubt: str) -> None:
    base = BASE.replace("    '''Clean a row.'''", f"    {doubt}")
    changed = base.replace("    return row\n\n\ndef late", "    return row * 2\n\n\ndef late")
    assert changed != base
    assert digest(base=changed) != digest(base=base) is not None


def test_is_of_the_serde_that_is_named_by_its_place(digest: Of) -> None:
    def of(base: str) -> str | None:
        digest(base=base)
        return CodeDigests().of(Place("samza_digest_app", "Money"))

    assert of(BASE) == of(BASE.replace("low: int", "low: float"))
    assert of(BASE) != of(BASE.replace("more: int = 5", "more: int = 6"))


def test_changes_with_a_closure_and_defaults() -> None:
    def made(rate: int) -> Any:
        return lambda row, more=rate: row * rate + more

    def of(value: Any) -> str | None:
        return CodeDigests().of(value)

    assert of(made(1)) == of(made(1)) is not None
    assert of(made(1)) != of(made(2))
    assert of(functools.partial(max, 1)) != of(functools.partial(max, 2))
    assert of({"b", "a"}) == of({"a", "b"}) != of({"a"})


def test_ends_where_functions_name_each_other() -> None:
    def even(number: int) -> bool:
        return number == 0 or odd(number - 1)

    def odd(number: int) -> bool:
        return number != 0 and even(number - 1)

    assert CodeDigests().of(even) is not None


def test_there_is_none_of_what_cannot_be_compared(digest: Of) -> None:
    lock = threading.Lock()

    def locked(row: Any) -> Any:
        with lock:
            return row

    assert CodeDigests().of(locked) is None
    importing = BASE.replace("    '''Clean a row.'''", "    __import__(row)")
    assert digest(base=importing) is None
    literal = importing.replace("__import__(row)", "__import__('samza_digest_helpers')")
    assert digest(base=literal) is not None


def test_changes_with_the_version_of_a_library(digest: Of, monkeypatch: pytest.MonkeyPatch) -> None:
    base = BASE.replace("import json", "import json\nimport numpy").replace(
        "    '''Clean a row.'''", "    numpy.abs(1)"
    )
    before = digest(base=base)
    monkeypatch.setattr(code_digests, "_version", lambda library: f"another {library}")
    assert digest(base=base) != before


def test_is_the_same_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "samza_digest_helpers.py").write_text(HELPERS)
    (tmp_path / "samza_digest_effects.py").write_text(EFFECTS)
    more = "NAMES = {'a', 'b', 'c'}\n\n\ndef named():\n    names, text = {'x', 'y', 'z z'}, 'z z'\n"
    more += "    return lambda row: row in names and text in NAMES\n"
    (tmp_path / "samza_digest_app.py").write_text(BASE + more)
    code = (
        "import samza_digest_app as app\n"
        "from airflow_samza.application.code_digest import CodeDigests\n"
        "print(*(CodeDigests().of(each) for each in (app.clean, app.named(), app.late, app.RATES, app.KIND)))\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": f"{tmp_path}:{Path.cwd()}", "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")  # the first compiles, the others read what it has compiled
    }
    assert len(found) == 1
    assert "None" not in found.pop()
