"""Random changes of single tokens, and the share of them that the tests of ``make test`` notice.

``python -m tests.mutants plan`` tries 40 changes of the planner, the control messages and the choosers, always the same
ones of the same code; ``--seed`` and ``--count`` choose others, ``--only plan-07`` repeats one. Each is tried in a fork
whose import of the changed module gives the change; no file is written. Tests that start processes see nothing of it.

The tests are collected once, with both forms of each changed statement in the modules. They run once on the code as it is, and
note which of them come to which change. A change is then shown to these only, the file that mirrors the module and quick
tests first. ``--all`` shows it to all tests of the group; this matters to what a cache keeps from one test to the next.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import importlib
import importlib.machinery
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType
from typing import Any, TextIO

import pytest

from tests.support.server_files import SERVERS

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

FAST = " and ".join(f"not {mark}" for mark in ("extended", "nightly", *SERVERS))

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
SWITCH = "__is_changed__"
"""The name of a function among the builtins: modules ask it which form of a statement they run."""

HOW = {None: "hangs", 0: "survived"}
"""Ends of a change, by the code of the process that tries it; other codes are those of killed ones."""

Way = tuple[tuple[str, int], ...]
"""The way from a module to a statement: fields and places in them."""

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
                yield Mutant("", self.file, getattr(node, "lineno", 0), kind, start, end, new)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()

    def _of(self, node: ast.AST) -> Iterator[tuple[str, int, int, str]]:
        if isinstance(node, ast.Compare):
            yield from self._comparisons(node)
        elif isinstance(node, ast.BoolOp):
            other = " or " if isinstance(node.op, ast.And) else " and "
            yield "boolean", *self.span(node), f"({other.join(f'({self._text(value)})' for value in node.values)})"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield "not", *self.span(node), f"({self._text(node.operand)})"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            left, right, sign = self._text(node.left), self._text(node.right), "-+"[isinstance(node.op, ast.Sub)]
            if not isinstance(node.left, (ast.JoinedStr, ast.Constant, ast.List, ast.Tuple)):
                yield "sum", *self.span(node), f"({left}) {sign} ({right})"
        elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
            new = not node.value if isinstance(node.value, bool) else int(str(node.value)) + 1
            yield "constant", *self.span(node), str(new)
        elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Load):
            yield "minimum", *self.span(node), NAMES[node.id]
        elif isinstance(node, (ast.Continue, ast.Break)):
            yield "loop", *self.span(node), "break" if isinstance(node, ast.Continue) else "continue"
        elif isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Await)):
            yield "call", *self.span(node), "pass"
        elif isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Raise):
            yield "check", *self.span(node), "pass"
        elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
            yield "return", *self.span(node.value), "None"

    def _comparisons(self, node: ast.Compare) -> Iterator[tuple[str, int, int, str]]:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            old, new = COMPARISONS[type(operator)]
            between = self.span(left)[1], self.span(right)[0]
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
        if file not in known:
            known[file] = [*Finder(file).mutants()]
        if of_file := known[file]:
            kind = chance.choice(sorted({mutant.kind for mutant in of_file}))
            mutant = chance.choice([mutant for mutant in of_file if mutant.kind == kind])
            with suppress(SyntaxError):
                ast.parse(mutant.source())
                found.setdefault((file, mutant.start, mutant.end), mutant)
    return [
        Mutant(f"{group}-{n:02}", m.file, m.line, m.kind, m.start, m.end, m.new) for n, m in enumerate(found.values())
    ]


def tests_of(group: str) -> list[str]:
    """Return the folders and files with the tests of a group, the folders of its code for their doctests."""
    folders = [f"{PACKAGE.name}/{folder}" for folder in CODE[group]]  # pytest rewrites, and so imports, files by itself
    return [*folders, *(path for path in TESTS[group] if (ROOT / path).exists())]


def mirror(mutant: Mutant) -> str:
    """Return the name of the file of unit tests that mirrors a changed module."""
    module = mutant.file.relative_to(PACKAGE)
    return f"tests/unit/{module.parent}/test_{module.name}"


def with_switches(file: Path, mutants: Sequence[Mutant]) -> ast.Module:
    """Return a module with both forms of each statement that a change is in: ``if SWITCH(name): changed else: as it is``."""
    finder = Finder(file)
    tree = ast.parse(finder.data)
    around: dict[ast.stmt, list[tuple[Mutant, ast.stmt]]] = {}
    for mutant in mutants:
        way = max((way for way in _statements(tree) if _is_in(mutant, _at(tree, way), finder)), key=len)
        around.setdefault(_at(tree, way), []).append((mutant, _at(ast.parse(mutant.source()), way)))
    for block in [block for node in ast.walk(tree) for block in _blocks(node)]:
        for place, stmt in enumerate(block):
            for mutant, changed in around.get(stmt, ()):
                switch = ast.Call(ast.Name(SWITCH, ast.Load()), [ast.Constant(mutant.name)], [])
                block[place] = ast.copy_location(ast.If(switch, [changed], [block[place]]), stmt)
    return ast.fix_missing_locations(tree)


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    """Return the lists of statements of a node."""
    values = (value for _, value in ast.iter_fields(node) if isinstance(value, list))
    return [value for value in values if value and isinstance(value[0], ast.stmt)]


def _statements(node: ast.AST, way: Way = ()) -> Iterator[Way]:
    """Yield the way from a module to each of its statements."""
    for name, value in ast.iter_fields(node):
        for place, child in enumerate(value if isinstance(value, list) else ()):
            if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
                found = (*way, (name, place))
                if isinstance(child, ast.stmt):
                    yield found
                yield from _statements(child, found)


def _at(tree: ast.AST, way: Way) -> ast.stmt:
    """Return the statement to which a way leads."""
    found: Any = tree
    for name, place in way:
        found = getattr(found, name)[place]
    assert isinstance(found, ast.stmt)
    return found


def _is_in(mutant: Mutant, stmt: ast.stmt, finder: Finder) -> bool:
    spans = [finder.span(each) for each in (stmt, *getattr(stmt, "decorator_list", ()))]
    return min(spans)[0] <= mutant.start and mutant.end <= finder.span(stmt)[1]


@dataclass
class Notes:
    """The tests that come to the statement of each change, what each test takes, and how each change ends."""

    tests: dict[str, set[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)
    """Changes of statements that run when a module is imported, or in a fixture of the session."""
    failed: set[str] = field(default_factory=set)
    outcomes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Notes:
        """Return what is noted in a file."""
        found = cls()
        for line in file.read_text().splitlines():
            what, value, test = line.split("\t", 2)
            if what == "took":
                found.seconds[test] = float(value)
            elif what == "failed":
                found.failed.add(test)
            elif what == "outcome":
                found.outcomes[test] = value
            elif test:
                found.tests.setdefault(value, set()).add(test)
            else:
                found.imported.add(value)
        return found

    def order(self, mutant: Mutant) -> list[str]:
        """Return the tests that a change is shown, in order."""
        names = list(self.seconds if mutant.name in self.imported else self._that_reach(mutant))
        of_module = (mirror(mutant), str(mutant.file.relative_to(ROOT)))
        names = [test for test in names if test not in self.failed]
        return sorted(names, key=lambda test: (not test.startswith(of_module), self.seconds[test], test))

    def _that_reach(self, mutant: Mutant) -> Iterator[str]:
        reach = self.tests.get(mutant.name, set())
        files = tuple(f"{file}::" for file in reach)
        return (test for test in self.seconds if test in reach or test.startswith(files))


class Trials:
    """A plugin of pytest that runs the collected tests in forks: once as they are, then for each change those that come to it.

    A fork that a test makes adds to the same notes.
    """

    def __init__(self, mutants: Sequence[Mutant], asked: argparse.Namespace, file: Path, out: TextIO) -> None:
        self._mutants, self._asked, self._out = mutants, asked, out
        self._path = file
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._noted: set[tuple[str, str]] = set()
        self._test = ""
        self._active = ""
        self._notes = True
        setattr(builtins, SWITCH, self._switch)
        files = {mutant.file for mutant in mutants}
        import_as({path: with_switches(path, [m for m in mutants if m.file == path]) for path in files})

    def _switch(self, mutant: str) -> bool:
        if self._notes and (self._test, mutant) not in self._noted:
            self._noted.add((self._test, mutant))
            self._note("reached", mutant, self._test)
        return self._active == mutant

    def _note(self, *words: object) -> None:
        os.write(self._file, "\t".join(map(str, words)).encode() + b"\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, request: pytest.FixtureRequest) -> Generator[None, object, object]:
        test = self._test
        self._test = request.node.nodeid  # of a file, if all its tests share the fixture
        try:
            return (yield)
        finally:
            self._test = test

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._notes:
            self._note("failed", report.when, report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests as they are, and for each change."""
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # forks share it
        in_fork(lambda: self._run(session, session.items), 20 * self._asked.seconds)
        notes = Notes.read(self._path)
        if notes.failed:
            print("Left out, as they fail without a change:", *sorted(notes.failed), file=self._out, flush=True)
        items = {item.nodeid: item for item in session.items}
        for mutant in self._mutants:
            if mutant.name not in notes.imported:
                how, shown = self._outcome(session, items, mutant, notes)
                print(f"{how:8} {mutant}, shown to {shown} tests", file=self._out, flush=True)
                self._note("outcome", how, mutant.name)
        return True

    def _outcome(
        self, session: pytest.Session, items: dict[str, pytest.Item], mutant: Mutant, notes: Notes
    ) -> tuple[str, int]:
        tests = notes.order(mutant)
        if self._asked.all:
            tests.extend(notes.seconds.keys() - notes.failed - set(tests))
        limit = max(self._asked.seconds, 10 * sum(notes.seconds[test] for test in tests))

        def changed() -> int:
            self._active, self._notes = mutant.name, False
            return self._run(session, [items[test] for test in tests])

        return HOW.get(in_fork(changed, limit), "killed"), len(tests)

    def _run(self, session: pytest.Session, items: Sequence[pytest.Item]) -> int:
        for item, after in zip_longest(items, items[1:]):
            self._test = item.nodeid
            before = time.perf_counter()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            self._test = ""
            if self._notes:
                self._note("took", time.perf_counter() - before, item.nodeid)
            elif session.testsfailed:
                return 1
        return 0


class _Order:
    """A plugin of pytest that runs some tests only, in an order of its own."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._places = {test: place for place, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._places), key=lambda item: self._places[item.nodeid]
        )


def outcome_of_import(mutant: Mutant, places: Sequence[str], notes: Notes, limit: float) -> str:
    """Return what tests make of a change that already matters when its module is imported."""
    tests = notes.order(mutant)

    def changed() -> int:
        import_as({mutant.file: ast.parse(mutant.source())})
        return run_pytest(places, _Order(tests))

    return HOW.get(in_fork(changed, limit), "killed")


def run_pytest(tests: Sequence[str], plugin: object) -> int:
    """Return how pytest ends."""
    options = ["-x", "-q", "-s", "-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=none", "-m", FAST]
    return int(pytest.main([*options, *tests], [plugin]))


def in_fork(act: Callable[[], int], limit: float, log: Path = Path(os.devnull)) -> int | None:
    """Return how a process ends that does something and prints into a file. None: it does not in so many seconds."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            printed = os.open(log, os.O_WRONLY | os.O_CREAT)
            os.dup2(printed, 1)
            os.dup2(printed, 2)
            os.setsid()
            code = act()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, 9)
    os.waitpid(child, 0)
    return None


def import_as(modules: Mapping[Path, ast.Module]) -> None:
    """Have this process import changed modules, whatever is compiled of them."""
    loader = importlib.machinery.SourceFileLoader
    as_it_is = loader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        changed = modules.get(Path(self.path))
        return as_it_is(self, fullname) if changed is None else compile(changed, self.path, "exec", dont_inherit=True)

    setattr(loader, "get_code", get_code)  # noqa: B010


def main() -> int:
    """Try the changes, and print what survives, and the share that does not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(CODE))
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--tests", nargs="*", default=(), help="files or folders instead of all tests of the group")
    parser.add_argument("--all", action="store_true", help="show each change to all tests of the group")
    parser.add_argument("--seconds", type=int, default=600, help="after which a change hangs, at least")
    asked = parser.parse_args()
    os.chdir(ROOT)
    for name in ("pandas", "pyarrow.compute", "sqlglot.dialects.spark"):
        importlib.import_module(name)  # once for all forks
    for group in asked.groups or CODE:
        mutants = [m for m in chosen(group, asked.count, asked.seed) if not asked.only or m.name in asked.only]
        if not try_group(group, mutants, asked):
            return 1
    return 0


def try_group(group: str, mutants: Sequence[Mutant], asked: argparse.Namespace) -> bool:
    """Print what the tests of a group make of changes, and return False if no test can run."""
    places = asked.tests or tests_of(group)
    with TemporaryDirectory() as folder, os.fdopen(os.dup(1), "w") as out:
        file, log = Path(folder) / "notes", Path(folder) / "log"
        file.touch()
        in_fork(lambda: run_pytest(places, Trials(mutants, asked, file, out)), 1e9, log)
        notes = Notes.read(file)
        if not notes.seconds:
            print(f"{group}: the tests cannot be collected\n{log.read_text()}")
            return False
        for mutant in mutants:
            if mutant.name in notes.imported:
                notes.outcomes[mutant.name] = how = outcome_of_import(mutant, places, notes, asked.seconds)
                print(f"{how:8} {mutant}, shown to {len(notes.seconds)} tests", flush=True)
    seen = sum(how != "survived" for how in notes.outcomes.values())
    print(f"{group}: {seen} of {len(mutants)} are seen ({seen / len(mutants):.0%})", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
