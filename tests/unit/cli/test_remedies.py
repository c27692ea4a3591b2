"""Hints work where they are read: no hint on the command line speaks of clearing tasks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_samza
from airflow_samza.cli.remedies import on_the_command_line
from tests.support.syntax_trees import parsed

PACKAGE = Path(airflow_samza.__file__).parent


def texts_of(node: ast.expr) -> Iterator[str]:
    """The texts that an expression may give; what is filled in is left as a word."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "x"
            for part in node.values
        )
    elif isinstance(node, ast.IfExp):
        yield from (*texts_of(node.body), *texts_of(node.orelse))
    elif isinstance(node, ast.BinOp):
        yield from (left + right for left in texts_of(node.left) for right in texts_of(node.right))


def hints() -> Iterator[tuple[str, str]]:
    """Every hint in the code that is not Airflow's own, with its place."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] == "provider":
            continue
        for node in ast.walk(parsed(path.read_text(encoding="utf-8"))):
            given = [word.value for word in node.keywords if word.arg == "hint"] if isinstance(node, ast.Call) else []
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "hint" for target in node.targets
            ):
                given.append(node.value)
            for value in given:
                for text in texts_of(value):
                    yield f"{path.relative_to(PACKAGE)}:{value.lineno}", text


def test_no_hint_tells_somebody_at_the_command_line_to_clear_a_task() -> None:
    found = list(hints())
    assert sum("clear" in text.lower() for _, text in found) > 20
    asks = re.compile(r"\bclear (the|it|its|them|what|\S+ (with|from))\b", re.IGNORECASE)
    left = {place: text for place, text in found if asks.search(on_the_command_line(text))}
    assert left == {}


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("The plan and the slice must come from one run; clear the plan task.", "run it again with --again."),
        (
            "Clear its plan task with its downstream tasks: the run is then planned anew.",
            "Run it again with --again: the run is",
        ),
        (
            "Remove it and clear the stage that wrote it, which publishes its files again.",
            "run again with --again what wrote it, which",
        ),
        ("Submit it again, or clear it.", "Run it again with the same --run-id, and it goes on."),
        (
            "Give the run another id (--run-id; a new Dag run); or, in Airflow, clear its plan task with its "
            "downstream: the next "
            "generation replaces what it wrote.",
            "Give the run another id (--run-id; a new Dag run).",
        ),
        (
            'Run it with a state of its own: state_from="fresh".',
            "Run it with a state of its own: --state-from fresh.",
        ),
        (
            "First undo it; then clear them from their plans on, in their order.",
            "then run them again with --again, in their order.",
        ),
        (
            "Clear its failed tasks, so that it finishes.",
            "Run it again under its name (--run-id), so that it finishes.",
        ),
    ],
)
def test_a_hint_says_what_works_here(hint: str, said: str) -> None:
    assert said in on_the_command_line(hint)
