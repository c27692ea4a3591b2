"""Random programs, edited at random places: another result of a callable has another digest, and comments have none.

A program is a list of pieces, each with numbers that an edit changes and with the operators that depend on it. The
operators are called in a process of their own, before the edit and after it.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.budgets import share

SEEDS = range(2026, 2026 + share(60))
EDITS = 4

HEADER = """
from __future__ import annotations

import functools
import logging
import pathlib
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from functools import partial, singledispatch
from typing import NamedTuple

from more_{app} import scaled, Base
import more_{app} as more
import effects_{app}

log = logging.getLogger(__name__)
"""

PIECES = (
    "RATE_{n} = {v}\n\n\ndef piece_{n}(row):\n    return row * RATE_{n}\n",
    "def inner_{n}(row, more={v}):\n    return row + more\n\n\ndef piece_{n}(row):\n    return inner_{n}(row) + {v}\n",
    "class Named_{n}(NamedTuple):\n    low: int\n\n    def of(self, row):\n        return self.low + row + {v}\n\n\n"
    "NAMED_{n} = Named_{n}({v})\n\n\ndef piece_{n}(row):\n    return NAMED_{n}.of(row)\n",
    "class Kind_{n}(Enum):\n    ONE = {v}\n\n    def of(self, row):\n        return self.value + row + {v}\n\n\n"
    "KIND_{n} = Kind_{n}.ONE\n\n\ndef piece_{n}(row):\n    return KIND_{n}.of(row)\n",
    "@singledispatch\ndef price_{n}(row):\n    return 0\n\n\n@price_{n}.register\ndef _(row: int):\n    return row + {v}\n\n\n"
    "@price_{n}.register(str)\ndef _(row):\n    return {v}\n\n\n"
    "def piece_{n}(row):\n    return price_{n}(row) + price_{n}(str(row))\n",
    "def piece_{n}(row):\n    return row + piece_{n}.rate\n\n\npiece_{n}.rate = {v}\nsetattr(piece_{n}, 'rate', {v} + piece_{n}.rate)\n",
    "def step_{n}(row):\n    return row + {v}\n\n\nSTEPS_{n} = OrderedDict(step=step_{n})\n\n\n"
    "def piece_{n}(row):\n    return STEPS_{n}['step'](row)\n",
    "@dataclass\nclass Data_{n}(Base):\n    row: int\n    more: int = {v}\n    kept: list = field(default_factory=lambda: [{v}])\n\n"
    "    def of(self):\n        return self.row + self.more + self.kept[0] + self.base\n\n\n"
    "def piece_{n}(row):\n    return Data_{n}(row).of()\n",
    "def timed_{n}(function):\n    @functools.wraps(function)\n    def wrapper(row):\n        return function(row) + {v}\n\n"
    "    return wrapper\n\n\n@timed_{n}\ndef piece_{n}(row):\n    return row - {v}\n",
    "def counted_{n}(by):\n    def deep(function):\n        return lambda row: function(row) + by + {v}\n\n    return deep\n\n\n"
    "@counted_{n}({v})\ndef piece_{n}(row):\n    return row\n",
    "class Meta_{n}(type):\n    def of(cls, row):\n        return row + cls.rate\n\n\n"
    "class Parent_{n}(metaclass=Meta_{n}):\n    rate = {v}\n\n\nclass Child_{n}(Parent_{n}):\n    pass\n\n\n"
    "def piece_{n}(row):\n    return Child_{n}.of(row)\n",
    "REGISTRY_{n} = {{}}\n\n\ndef register_{n}(name):\n    def kept(function):\n        REGISTRY_{n}[name] = function\n"
    "        return function\n\n    return kept\n\n\n@register_{n}('a')\ndef first_{n}(row):\n    return row + {v}\n\n\n"
    "@register_{n}('b')\ndef second_{n}(row):\n    return row * {v}\n\n\n"
    "def piece_{n}(row):\n    return sum(each(row) for each in REGISTRY_{n}.values())\n",
    "class Plugin_{n}:\n    known = []\n\n    def __init_subclass__(cls):\n        cls.known.append(cls)\n\n\n"
    "class Used_{n}(Plugin_{n}):\n    rate = {v}\n\n\n"
    "def piece_{n}(row):\n    return row + sum(each.rate for each in Plugin_{n}.known)\n",
    "class Sub_{n}:\n    pass\n\n\nclass Found_{n}(Sub_{n}):\n    rate = {v}\n\n\n"
    "def piece_{n}(row):\n    return row + sum(each.rate for each in Sub_{n}.__subclasses__())\n",
    "LIMIT_{n} = 1\n\n\ndef set_up_{n}(limit):\n    global LIMIT_{n}\n    LIMIT_{n} = limit + {v}\n\n\nset_up_{n}({v})\n\n\n"
    "def piece_{n}(row):\n    return row + LIMIT_{n}\n",
    "CACHE_{n} = {{}}\n\n\ndef fill_{n}():\n    CACHE_{n}.update(a={v})\n    return {v}\n\n\nFILLED_{n} = fill_{n}()\n\n\n"
    "def piece_{n}(row):\n    return row + CACHE_{n}['a']\n",
    "def piece_{n}(row):\n    return row + globals()['DIRECT_{n}']\n\n\nDIRECT_{n} = {v}\n",
    "def piece_{n}(row):\n    return row + eval('EVALUATED_{n}')\n\n\nEVALUATED_{n} = {v}\n",
    "def piece_{n}(row):\n    from late_{app} import late\n\n    return late(row) + {v}\n",
    "def piece_{n}(row):\n    log.info('row %s', row)\n    return scaled(row) + {v}\n",
    "def piece_{n}(row):\n    return more.scaled(row) + more.Base.base + {v}\n",
    "def piece_{n}(row):\n    return more.dispatched(row) + {v}\n",
    "def piece_{n}(row):\n    text = (pathlib.Path(__file__).parent / 'data.txt').read_text()\n    return row + int(text) + {v}\n",
    "class Call_{n}:\n    def __init__(self, rate):\n        self.rate = rate\n\n    def __call__(self, row):\n"
    "        return row + self.rate + {v}\n\n\npiece_{n} = Call_{n}({v})\n",
    "def made_{n}(rate):\n    def piece(row, more={v}):\n        return row + rate + more\n\n    return piece\n\n\n"
    "piece_{n} = made_{n}({v})\n",
    "piece_{n} = partial(lambda by, row: row + by + {v}, {v})\n",
    "class Holder_{n}:\n    @classmethod\n    def of(cls, row):\n        return row + {v}\n\n    @staticmethod\n"
    "    def other(row):\n        return row * {v}\n\n\npiece_{n} = Holder_{n}.of\n",
    "@functools.lru_cache(maxsize=None)\ndef piece_{n}(row):\n    return row + {v}\n",
    "for name_{n} in ('x',):\n    LOOPED_{n} = {v}\n\ntry:\n    CHOSEN_{n} = {v}\nexcept ValueError:\n    CHOSEN_{n} = 0\n\n\n"
    "def piece_{n}(row):\n    return row + LOOPED_{n} + CHOSEN_{n}\n",
)
"""Each makes ``piece_<n>``, of numbers ``v`` that an edit changes."""

MORE = """
from functools import singledispatch

FACTOR = {v}


class Base:
    base = {v}


def scaled(row):
    return row * FACTOR


@singledispatch
def dispatched(row):
    return 0
"""
EFFECTS = "from more_{app} import dispatched\n\n\n@dispatched.register\ndef _(row: int):\n    return row + {v}\n"
LATE = "def late(row):\n    return row + {v}\n"

LOOK = """
import importlib, sys, hashlib, pathlib
from airflow_samza.application.code_digest import CodeDigests

app = importlib.import_module(sys.argv[1])
data = (pathlib.Path(app.__file__).parent / "data.txt").read_text()
digests = CodeDigests(sys.argv[1])
for name in sorted(each for each in vars(app) if each.startswith("piece_")):
    print(name, getattr(app, name)(5), digests.of(getattr(app, name), data))
described = sorted(vars(app)["described"]().items())
for name, function in described:
    print(name, function(5), digests.of(function, data))
"""


class Program:
    """The files of a random program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.app = str(seed)
        chosen = [*enumerate(self.random.sample(PIECES, 14))]
        app = self._filled(HEADER) + "".join(f"\n\n{self._filled(piece, number)}" for number, piece in chosen)
        app += "\n\ndef described():\n    by = {v}\n    return {{\n"
        app = app[: -len("    by = {v}\n    return {{\n")] + f"    by = {self._value()}\n    return {{\n"
        for number in range(3):
            app += f"        'lambda_{number}': lambda row, by=by: piece_{number}(row) + {self._value()},\n"
        app += f"        'other': lambda row: row + {self._value()},\n    }}\n"
        self.files = {
            f"app_{seed}.py": app,
            f"more_{seed}.py": self._filled(MORE),
            f"effects_{seed}.py": self._filled(EFFECTS),
            f"late_{seed}.py": self._filled(LATE),
            "data.txt": str(self._value()),
        }

    def _value(self) -> int:
        return self.random.randint(1000, 9999)

    def _filled(self, piece: str, number: int = 0) -> str:
        text = piece.replace("{n}", str(number)).replace("{app}", self.app).replace("{{", "{").replace("}}", "}")
        return re.sub(r"\{v\}", lambda _: str(self._value()), text)

    def edited(self) -> dict[str, str]:
        """Return the files with one number changed, anywhere."""
        places = [(name, match) for name, text in self.files.items() for match in re.finditer(r"\b\d{4}\b", text)]
        name, match = self.random.choice([each for each in places if each[1][0] != self.app])
        text = self.files[name]
        return {**self.files, name: f"{text[: match.start()]}{self._value()}{text[match.end() :]}"}

    def commented(self) -> dict[str, str]:
        """Return the files with comments and blank lines between statements."""
        return {
            name: re.sub(r"\n\n\n(?=\S)", "\n\n# a remark\n\n\n", text) if name.endswith(".py") else text
            for name, text in self.files.items()
        }


def look(folder: Path, files: dict[str, str], app: str) -> dict[str, tuple[str, str]]:
    """Return the results and the digests of the operators of a program."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    path = f"{folder}:{Path.cwd()}"
    done = subprocess.run(
        [sys.executable, "-c", LOOK, f"app_{app}"], env={"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = (line.split() for line in done.stdout.splitlines())
    return {name: (result, digest) for name, result, digest in lines}


@pytest.mark.random
@pytest.mark.parametrize("seed", SEEDS)
def test_another_result_has_another_digest_and_a_comment_has_none(seed: int, tmp_path: Path) -> None:
    program = Program(seed)
    before = look(tmp_path / "before", program.files, program.app)
    assert "None" not in {digest for _, digest in before.values()}
    commented = look(tmp_path / "commented", program.commented(), program.app)
    assert commented == before
    kept = unrelated = 0
    for number in range(EDITS):
        after = look(tmp_path / f"after-{number}", program.edited(), program.app)
        for name, (result, digest) in after.items():
            if result != before[name][0]:
                assert digest != before[name][1], f"seed {seed}, edit {number}, {name}"
            else:
                unrelated += 1
                kept += digest == before[name][1]
    print(f"seed {seed}: {kept} of {unrelated} digests that an edit does not concern are kept")
