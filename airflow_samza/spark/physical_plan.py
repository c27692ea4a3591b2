"""Spark's physical plan as a tree, read from the text that ``explain("formatted")`` gives (decision 62).

The only form that Spark Connect has, too.

>>> plan = parse_plan('''== Physical Plan ==
... * Project (3)
... +- MapInArrow (2)
...    +- * Range (1)
...
...
... (1) Range [codegen id : 1]
... Arguments: Range (0, 2, step=1, splits=Some(2))
... ''')
>>> plan.root.name, [node.name for node in plan.root.children]
('Project', ['MapInArrow'])
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from airflow_samza.spark.hidden_options import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame

_HEADING = "== Physical Plan =="
_SUBQUERY = re.compile(r"(?m)^Subquery:\d+ Hosting .*\n")

# A column's name may hold anything, a line break too, so that only lines of this form, where a tree can begin, are
# taken for one.
_NODE = re.compile(r"(?P<before>(?:[ :]  )*(?:[:+]- )?)(?:\* )?(?P<name>\S.*?) \((?P<number>\d+)\)\s*")
_ARGUMENTS = (
    r"(?ms)^\({number}\) {name}(?: \[codegen id : \d+\])?\s*\n(?:(?!^\(\d+\) ).)*?^Arguments: (?P<arguments>[^\n]*)"
)


@dataclass(eq=False)
class PlanNode:
    """A physical operator.

    Spark's name for it (with the kind of a join), its arguments where they are told, and what it reads.
    """

    name: str
    arguments: str = ""
    children: list[PlanNode] = field(default_factory=list)

    def is_a(self, name: str) -> bool:
        """Return whether the operator has this name, whatever kind of it it is."""
        return self.name.split(" ")[0] == name

    def __str__(self) -> str:
        return f"{self.name} {self.arguments}".rstrip()


@dataclass(frozen=True)
class PhysicalPlan:
    """The plan of a query, and those of the subqueries in its expressions."""

    root: PlanNode
    subqueries: tuple[PlanNode, ...] = ()


def explained(frame: DataFrame) -> str:
    """Return what ``frame.explain("formatted")`` prints.

    That itself would go to the standard output, which all threads share.
    """
    if is_remote(frame.sparkSession):
        return cast("RemoteFrame", frame)._explain_string(mode="formatted")
    jvm = frame._sc._jvm
    assert jvm is not None, "a session that has made a DataFrame has a Java"
    return str(jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted"))


def parse_plan(text: str) -> PhysicalPlan:
    """Return the plan that a formatted explanation shows; :class:`ValueError` for any other text."""
    _, _, body = text.partition(_HEADING + "\n")
    root = _tree(body, body)
    if root is None:
        raise ValueError(f"Spark explains a plan in a form that is not known: {text[:200]!r}")
    below = [_tree(body[match.end() :], body) for match in _SUBQUERY.finditer(body)]
    return PhysicalPlan(root, tuple(node for node in below if node is not None))


def _tree(text: str, whole: str) -> PlanNode | None:
    """Return the tree that a text begins with.

    A node stands below the nearest line before it that begins further to the left.
    """
    root: PlanNode | None = None
    above: list[tuple[int, PlanNode]] = []
    for line in text.split("\n"):
        match = _NODE.fullmatch(line)
        if match is None:
            break
        node = PlanNode(match["name"].strip(), _arguments(whole, match["number"], match["name"]))
        column = len(match["before"])
        while above and above[-1][0] >= column:
            above.pop()
        if above:
            above[-1][1].children.append(node)
        elif root is None:
            root = node
        else:
            break
        above.append((column, node))
    return root


def _arguments(text: str, number: str, name: str) -> str:
    match = re.search(_ARGUMENTS.format(number=number, name=re.escape(name.split(" ")[0])), text)
    return match["arguments"] if match is not None else ""


def exchange_keys(exchange: str) -> list[str]:
    """Return the columns by whose values an exchange moves rows.

    >>> exchange_keys("Exchange hashpartitioning(country#5, 200)")
    ['country']
    """
    match = re.search(r"(?:hash|range)partitioning\((.*?), \d+\)", exchange)
    return re.findall(r"([A-Za-z_]\w*)#\d+", match[1]) if match else []
