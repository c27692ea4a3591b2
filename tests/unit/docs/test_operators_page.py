"""docs/how-to/operators.md names every operator, and leads to an example of each."""

from __future__ import annotations

import inspect
import posixpath
import re

from airflow_samza.application.message_stream import MessageStream
from tests.support.documentation_pages import blocks, text_of

PAGE = "how-to/operators.md"
OPERATORS = {
    name for name, value in vars(MessageStream).items() if inspect.isfunction(value) and not name.startswith("_")
}


def examples_of() -> dict[str, str]:
    """Return for each operator in the page's table the Python on the pages to which its row leads."""
    found: dict[str, str] = {}
    for line in text_of(PAGE).partition("\n\n## ")[0].splitlines():
        for operator in re.findall(r"`(\w+)`", line) if line.startswith("| ") else ():
            links = re.findall(r"\]\(([\w-]+\.md)?(?:#[^)]*)?\)", line)
            pages = [posixpath.join("how-to", link) if link else PAGE for link in links]
            found[operator] = found.get(operator, "") + "".join(code for page in pages for code in blocks(page))
    return found


def test_every_operator_has_an_example() -> None:
    examples = examples_of()
    assert set(examples) == OPERATORS
    assert {name for name, code in examples.items() if f".{name}(" not in code} == set()
