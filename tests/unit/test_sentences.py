"""Sentences and hints of errors exist in one place, and the commands that they name are commands.

A sentence that stands in two modules is corrected in one of them. So whoever needs one that is there imports it, or the
function that makes its error.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from tests.support.syntax_trees import parsed
from tests.unit.docs.test_commands import ROOT_COMMAND, problem

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "airflow_samza"

OF_A_PART, OF_A_WHOLE, WORDS = 35, 24, 4
"""Letters and words of a part of a text, and of a whole one, from which on it is a sentence of its own."""

LOGGING = {"debug", "info", "warning", "error", "exception", "log"}
END_OF_PART = re.compile(r"(?<=[.;:?])\s+")
PLACE = "{}"
COMMANDS = sorted(ROOT_COMMAND.commands)
COMMAND = re.compile(r"airflow-samza (?:[a-z-]+ )*[a-z-]+(?: --[a-z-]+)*")


def text_of(node: ast.AST) -> str | None:
    """A text with ``{}`` in the places of values; None for what is no text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(text_of(value) or PLACE for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            texts = text_of(left), text_of(right)
            return None if texts == (None, None) else "".join(PLACE if text is None else text for text in texts)
    return None


def not_for_users(tree: ast.Module) -> Iterator[ast.AST]:
    """Docstrings and the texts below attributes, log lines, and what only a defect shows."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Assert():
                yield node
            case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError"))):
                yield node
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "logger"), attr=name)) if name in LOGGING:
                yield node


@cache
def texts(source: str) -> list[tuple[int, str]]:
    """The texts of a module that users may read, each whole: parts of an f-string are no texts of their own."""
    return list(_texts(source))


def _texts(source: str) -> Iterator[tuple[int, str]]:
    tree = parsed(source)
    passed = {id(inner) for node in not_for_users(tree) for inner in ast.walk(node)}
    for node in ast.walk(tree):  # outer nodes come first
        text = None if id(node) in passed else text_of(node)
        if text is not None:
            passed |= {id(inner) for inner in ast.walk(node)}
            yield node.lineno, text  # type: ignore[attr-defined]


def parts(text: str) -> Iterator[str]:
    """The sentences of a text, and the clauses of these, without what ends them; and the whole of it, if it is short."""
    found = END_OF_PART.split(text)
    for part in found:
        said = re.sub(r"\{\}(?:\s*\{\})*", PLACE, " ".join(part.split()))
        least = OF_A_WHOLE if len(found) == 1 and said.endswith(".") else OF_A_PART
        if len(said.replace(PLACE, "")) >= least and len(said.split()) >= WORDS:
            yield said.strip(" .;:?")


def shared(modules: Mapping[str, str]) -> dict[str, list[str]]:
    """The parts of texts that more than one module has, and where."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for module, source in modules.items():
        for line, text in texts(source):
            for part in parts(text):
                found[part].setdefault(module, f"{module}:{line}")
    return {part: list(places.values()) for part, places in found.items() if len(places) > 1}


def sources() -> dict[str, str]:
    return {
        path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def test_no_two_modules_have_the_same_sentence() -> None:
    assert shared(sources()) == {}


def test_a_sentence_in_two_modules_is_found_whatever_values_stand_in_it() -> None:
    one = 'raise E(f"The topic {name!r} is gone: " f"somebody has deleted {it} while a run was writing.")'
    other = 'hint = "Look. Somebody" + "; somebody has deleted " + it + " while a run was writing."'
    (found,) = shared({"a.py": one, "b.py": other, "c.py": '"""somebody has deleted {} while a run was writing."""'})
    assert found == "somebody has deleted {} while a run was writing"


def test_commands_that_hints_name_are_commands() -> None:
    named = {
        (path, command)
        for path, source in sources().items()
        for _, text in texts(source)
        for command in COMMAND.findall(text)
        if get_close_matches(command.split()[1], COMMANDS, 1)  # else it is a word of a sentence
    }
    assert len(named) > 20
    assert [(path, command, why) for path, command in sorted(named) if (why := problem(command))] == []
