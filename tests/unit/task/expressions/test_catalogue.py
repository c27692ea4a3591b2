"""Every SQL function that Arrow evaluates is in the catalogue of expressions, where Spark is the referee."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from sqlglot import exp

from airflow_samza.errors import SamzaError
from airflow_samza.task.expressions import nodes
from airflow_samza.task.expressions.compiler import UnknownColumn, compile_projection
from airflow_samza.task.expressions.expression import UnsupportedExpression
from airflow_samza.task.expressions.nodes import FUNCTIONS
from airflow_samza.task.expressions.reading import parsed
from tests.support.catalogue import ALL
from tests.support.referee import FULL, SCHEMA


@cache
def evaluated() -> tuple[frozenset[str], frozenset[str]]:
    """Return what Arrow evaluates of the catalogue: names of functions, and kinds of nodes in lower case."""
    functions: set[str] = set()
    kinds: set[str] = set()
    looked_up: set[str] = set()

    class Noted(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            looked_up.add(name)
            return super().get(name, default)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(nodes, "FUNCTIONS", Noted(FUNCTIONS))
        for text in (text for group in ALL.values() for text in group):
            for schema in (SCHEMA, FULL):
                looked_up.clear()
                try:
                    compile_projection([f"{text} AS r"], schema)
                except (SamzaError, UnsupportedExpression, UnknownColumn):
                    continue  # Catalyst evaluates it, or nobody does
                functions |= looked_up
                kinds |= {type(node).__name__.lower() for node in parsed(text, alone=False).walk()}
    return frozenset(functions), frozenset(kinds)


def test_every_function_is_compared_with_spark() -> None:
    missing = sorted(FUNCTIONS.keys() - evaluated()[0])
    assert not missing, f"tests/support/catalogue.py has no expression that Arrow evaluates with {', '.join(missing)}"


def test_every_form_that_the_parser_knows_by_a_name_of_its_own_is_compared_with_spark() -> None:
    known = {name.lower() for name, kind in vars(exp).items() if isinstance(kind, type)}
    compiled = {name[1:] for name in vars(nodes.NodeCompiler) if name[1:] in known and not name.startswith("__")}
    assert len(compiled) > 15
    # Arrow never runs regular expressions; struct(…) is parsed as a function.
    missing = sorted(compiled - {"regexplike", "struct"} - evaluated()[1])
    assert not missing, f"tests/support/catalogue.py has no expression that Arrow evaluates with {', '.join(missing)}"
