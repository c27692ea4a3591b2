"""Random changes of single tokens, and the share of them that the tests of ``make test`` notice.

``python -m tests.mutants plan`` tries 40 changes of the planner, the control messages and the choosers, always the same
ones of the same code; ``--seed`` and ``--count`` choose others, ``--only plan-07`` repeats one. Each is tried in a fork
whose import of the changed module gives the change; no file is written. Tests that start processes see nothing of it.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.machinery
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "airflow_samza"

CODE = {
    "plan": ("planner", "control", "chooser"),
    "task": ("task/operators", "task/loop", "task/tables"),
    "runs": ("runs", "engine"),
    "files": ("systems/log", "systems/files"),
    "provider": ("provider",),
}
"""Folders of the package by group."""

TESTS = {
    "plan": (
        "tests/unit/planner",
        "tests/unit/control",
        "tests/unit/chooser",
        "tests/conformance",
        "tests/property/test_planner_against_the_rules.py",
        "tests/property/test_planner_random_applications.py",
        "tests/property/test_choosers.py",
        "tests/property/test_chooser_layers.py",
        "tests/property/test_control_messages.py",
        "tests/unit/task/loop",
        "tests/unit/prepare",
    ),
    "task": ("tests/unit/task", "tests/conformance", "tests/property", "tests/unit/engine"),
    "runs": ("tests/unit/runs", "tests/unit/prepare", "tests/unit/engine"),
    "files": ("tests/unit/systems", "tests/contract", "tests/property/test_files_round_trip.py"),
    "provider": ("tests/unit/provider",),
}
"""Tests that each change of a group is shown, behind those of its own folder."""

FAST = " and ".join(f"not {mark}" for mark in ("extended", "nightly", "spark", "airflow", "browser", "hdfs", "kafka"))

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """A change of a file: the bytes from ``start`` to ``end`` become ``new``."""

    name: str
    file: Path
    line: int
    kind: str
    start: int
    end: int
    new: str

    def source(self) -> bytes:
        """Return the changed source."""
        data = self.file.read_bytes()
        return data[: self.start] + self.new.encode() + data[self.end :]

    def __str__(self) -> str:
        old = self.file.read_bytes()[self.start : self.end].decode()
        place = f"{self.file.relative_to(ROOT)}:{self.line}"
        return f"{self.name} {place}: {self.kind}, {' '.join(old.split())[:60]!r} -> {self.new[:60]!r}"


class Finder:
    """All changes of one file that leave it Python."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.data = file.read_bytes()
        self.starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def mutants(self) -> Iterator[Mutant]:
        """Yield the changes."""
        for node in ast.walk(ast.parse(self.data)):
            for kind, start, end, new in self._of(node):
                mutant = Mutant("", self.file, getattr(node, "lineno", 0), kind, start, end, new)
                with suppress(SyntaxError):
                    ast.parse(mutant.source())
                    yield mutant

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self.data[start:end].decode()

    def _of(self, node: ast.AST) -> Iterator[tuple[str, int, int, str]]:
        if isinstance(node, ast.Compare):
            yield from self._comparisons(node)
        elif isinstance(node, ast.BoolOp):
            other = " or " if isinstance(node.op, ast.And) else " and "
            yield "boolean", *self._span(node), f"({other.join(f'({self._text(value)})' for value in node.values)})"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield "not", *self._span(node), f"({self._text(node.operand)})"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            left, right, sign = self._text(node.left), self._text(node.right), "-+"[isinstance(node.op, ast.Sub)]
            if not isinstance(node.left, (ast.JoinedStr, ast.Constant, ast.List, ast.Tuple)):
                yield "sum", *self._span(node), f"({left}) {sign} ({right})"
        elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
            new = not node.value if isinstance(node.value, bool) else int(str(node.value)) + 1
            yield "constant", *self._span(node), str(new)
        elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Load):
            yield "minimum", *self._span(node), NAMES[node.id]
        elif isinstance(node, (ast.Continue, ast.Break)):
            yield "loop", *self._span(node), "break" if isinstance(node, ast.Continue) else "continue"
        elif isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Await)):
            yield "call", *self._span(node), "pass"
        elif isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Raise):
            yield "check", *self._span(node), "pass"
        elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
            yield "return", *self._span(node.value), "None"

    def _comparisons(self, node: ast.Compare) -> Iterator[tuple[str, int, int, str]]:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            old, new = COMPARISONS[type(operator)]
            between = self._span(left)[1], self._span(right)[0]
            start = self.data.find(old.encode(), *between)
            if start >= 0:
                yield "comparison", start, start + len(old), new
            left = right


def chosen(group: str, count: int, seed: int) -> list[Mutant]:
    """Return so many changes of a group: files by their size, then kinds of changes alike."""
    chance = random.Random(f"{seed}-{group}")
    files = sorted(file for folder in CODE[group] for file in (PACKAGE / folder).rglob("*.py"))
    known: dict[Path, list[Mutant]] = {}
    found: dict[tuple[Path, int, int], Mutant] = {}
    while len(found) < count:
        (file,) = chance.choices(files, [file.stat().st_size for file in files])
        of_file = known.setdefault(file, [*Finder(file).mutants()])
        if of_file:
            kind = chance.choice(sorted({mutant.kind for mutant in of_file}))
            mutant = chance.choice([mutant for mutant in of_file if mutant.kind == kind])
            found.setdefault((file, mutant.start, mutant.end), mutant)
    return [
        Mutant(f"{group}-{n:02}", m.file, m.line, m.kind, m.start, m.end, m.new) for n, m in enumerate(found.values())
    ]


def tests_of(group: str, mutant: Mutant | None) -> list[str]:
    """Return the tests that a change is shown: those of its own folder first."""
    own = [] if mutant is None else [Path("tests/unit") / mutant.file.parent.relative_to(PACKAGE)]
    return [*dict.fromkeys(str(path) for path in (*own, *map(Path, TESTS[group])) if (ROOT / path).exists())]


def outcome(group: str, mutant: Mutant | None, limit: int) -> str:
    """Return what the tests make of a change: killed, survived, or hangs. None: of the code as it is."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            if mutant is not None:
                _import_changed(mutant)
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            os.setsid()
            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", FAST, *tests_of(group, mutant)]))
        finally:
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "survived" if os.waitstatus_to_exitcode(status) == 0 else "killed"
        time.sleep(0.1)
    os.killpg(child, 9)
    os.waitpid(child, 0)
    return "hangs"


def _import_changed(mutant: Mutant) -> None:
    """Have this process import the changed module, whatever is compiled of it."""
    loader = importlib.machinery.SourceFileLoader
    as_it_is = loader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        if Path(self.path) == mutant.file:
            return compile(mutant.source(), self.path, "exec", dont_inherit=True)
        return as_it_is(self, fullname)

    setattr(loader, "get_code", get_code)  # noqa: B010


def main() -> int:
    """Try the changes, and print what survives, and the share that does not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(CODE))
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--seconds", type=int, default=600, help="after which a change hangs")
    asked = parser.parse_args()
    os.chdir(ROOT)
    for name in ("pandas", "pyarrow.compute", "sqlglot.dialects.spark"):
        importlib.import_module(name)  # once for all forks
    for group in asked.groups or CODE:
        if outcome(group, None, 10 * asked.seconds) != "survived":
            print(f"{group}: the tests fail as they are")
            return 1
        mutants = [m for m in chosen(group, asked.count, asked.seed) if not asked.only or m.name in asked.only]
        seen = 0
        for mutant in mutants:
            how = outcome(group, mutant, asked.seconds)
            seen += how != "survived"
            print(f"{how:8} {mutant}", flush=True)
        print(f"{group}: {seen} of {len(mutants)} are seen ({seen / len(mutants):.0%})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
