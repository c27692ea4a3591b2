"""Rules of imports: every import statement of the package against the order of rooms in ARCHITECTURE.md.

The table holds for imports at the top of a module, inside functions, and for type checkers only, alike, as far as our
own packages go. A third-party library may be named for type checkers anywhere: that loads nothing.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_samza.system_kinds import BUILT_IN
from tests.support.statements import below, statements
from tests.support.syntax_trees import parsed

PACKAGE = Path(__file__).parents[2] / "airflow_samza"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("columns", "figures", "grouping", "quoting", "typed_values"),
    ("errors",),
    ("config", "records", "row", "schema", "secrecy", "private_folder", "system_kinds"),
    ("murmur3",),
    ("partitioner",),
    ("application",),
    ("planner",),
    ("control", "chooser"),
    ("systems", "storage"),
    ("runs",),
    ("task",),
    ("prepare",),
    ("launch",),
    ("engine",),
    ("spark",),
    ("testing", "provider"),
    ("cli",),
    ("assets", "hooks", "notifications", "operators", "sensors", "triggers"),
)
"""From left to right; a package may import itself and whatever stands to the left of its group."""

KINDS_OF_SYSTEMS = tuple(sorted({kind.loader.split(".")[2] for kind in BUILT_IN.values()} - {"log", "files"}))
"""The folders of the other registered kinds of systems."""

ROOMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "systems": (
        ("dictionaries", "filesystems", "generations"),
        ("output_slots", "made_tables"),
        ("producers_seen", "system"),
        ("sections", "topic_rejections", "topic_rows"),
        ("capabilities",),
        ("log",),
        ("files",),
        ("serdes",),
        ("tables",),
        KINDS_OF_SYSTEMS,
        ("bindings",),
    ),
    "runs": (
        ("failpoints", "records"),
        ("stages",),
        ("expectations",),
        ("kept_results", "state_history", "tables"),
        ("finish", "progress"),
        ("held_outputs",),
        ("compared_runs",),
        ("publication", "upkeep"),
    ),
    "task": (
        ("checkpoint", "expressions"),
        ("report", "messages"),
        ("tables",),
        ("operators",),
        ("program", "row_differences"),
        ("loop",),
    ),
}
"""The rooms of the large packages, in the same order: a room imports itself and what stands to its left."""

FUNCTIONS_ONLY = "in functions"
ANYWHERE = "anywhere"

THIRD_PARTY: dict[str, dict[str, str]] = {
    "columns": {},
    "figures": {},
    "grouping": {},
    "quoting": {},
    "errors": {},
    "config": {},
    "records": {"msgspec": FUNCTIONS_ONLY},
    "typed_values": {"msgspec": FUNCTIONS_ONLY},
    "row": {},
    "secrecy": {},
    "private_folder": {},
    "system_kinds": {},
    "application": {},
    "planner": {},
    "control": {},
    "chooser": {},
    "murmur3": {"pyarrow": ANYWHERE, "numpy": ANYWHERE},
    "partitioner": {"pyarrow": ANYWHERE, "numpy": ANYWHERE},
    # Dag files are parsed all the time, so that what they load must not load these.
    "schema": {"pyarrow": FUNCTIONS_ONLY, "numpy": FUNCTIONS_ONLY},
    "systems": {
        "pyarrow": ANYWHERE,
        "numpy": ANYWHERE,
        "fsspec": ANYWHERE,
        "fastavro": FUNCTIONS_ONLY,
        "botocore": FUNCTIONS_ONLY,
        "google": FUNCTIONS_ONLY,
        "httpx": ANYWHERE,
        "obstore": ANYWHERE,
        "tenacity": ANYWHERE,
        "cachetools": ANYWHERE,
        "mmh3": FUNCTIONS_ONLY,
        "msgspec": ANYWHERE,
        "confluent_kafka": ANYWHERE,
        "pyiceberg": FUNCTIONS_ONLY,  # takes half a second to load, and tasks need none of it
        "hive_metastore": FUNCTIONS_ONLY,  # a part of it, of use with thrift only
        "thrift": FUNCTIONS_ONLY,
    },
    "storage": {
        "pyarrow": ANYWHERE,
        "numpy": ANYWHERE,
        "fsspec": ANYWHERE,
        "sortedcontainers": ANYWHERE,
        "rocksdict": ANYWHERE,
        "msgspec": ANYWHERE,
        "cachetools": ANYWHERE,
    },
    # No pyspark: a triggerer looks after runs, too.
    "runs": {"pendulum": ANYWHERE, "psutil": ANYWHERE},
    "task": {
        "pyarrow": ANYWHERE,
        "numpy": ANYWHERE,
        "cloudpickle": ANYWHERE,
        "pendulum": ANYWHERE,
        "sqlglot": FUNCTIONS_ONLY,
        "tenacity": ANYWHERE,
        "cachetools": ANYWHERE,
        "aiolimiter": ANYWHERE,
    },
    "prepare": {},
    "launch": {"kubernetes": FUNCTIONS_ONLY, "urllib3": FUNCTIONS_ONLY},
    # No pyspark: stages are driven through a port.
    "engine": {"psutil": ANYWHERE, "pyarrow": ANYWHERE},
    "spark": {
        "pyspark": ANYWHERE,
        "py4j": ANYWHERE,
        "pyarrow": ANYWHERE,
        "numpy": ANYWHERE,
        "pandas": FUNCTIONS_ONLY,
        "cloudpickle": ANYWHERE,
        "psutil": ANYWHERE,
        "pendulum": ANYWHERE,
    },
    "testing": {"pyarrow": ANYWHERE, "pendulum": ANYWHERE},
    "provider": {
        "airflow": ANYWHERE,
        "asgiref": FUNCTIONS_ONLY,
        # The page, which the API server alone loads.
        "fastapi": ANYWHERE,
        "pydantic": ANYWHERE,
        "starlette": ANYWHERE,
        "sqlalchemy": ANYWHERE,
        "cachetools": ANYWHERE,
        "attr": ANYWHERE,
        "openlineage": ANYWHERE,  # in a module that only OpenLineage's own calls load
        "pendulum": ANYWHERE,
        "pyarrow": FUNCTIONS_ONLY,
        "structlog": FUNCTIONS_ONLY,
    },
    # Import paths for Dag files: they hold names of the provider, and nothing else.
    "assets": {},
    "hooks": {},
    "notifications": {},
    "operators": {},
    "sensors": {},
    "triggers": {},
    "cli": {
        "typer": ANYWHERE,
        "rich": FUNCTIONS_ONLY,  # on a terminal only: it takes a twentieth of a second to load
        "pyarrow": FUNCTIONS_ONLY,
        "pendulum": ANYWHERE,
        "tomli": FUNCTIONS_ONLY,
        "tomllib": FUNCTIONS_ONLY,
    },
}
"""The libraries that a package may import, and where. Whatever a package does not list it may not import."""


@dataclass(frozen=True)
class Import:
    """One import statement: the module it names, and where it stands."""

    module: str
    line: int
    in_function: bool
    for_types_only: bool


def imports_of(tree: ast.Module, module: str, is_package: bool) -> Iterator[Import]:
    """Every import of a module, relative ones made absolute, with what surrounds it."""

    def walk(node: ast.AST, in_function: bool, for_types: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, in_function, for_types)
        elif isinstance(node, ast.ImportFrom):
            for name in _targets(node, module, is_package):
                yield Import(name, node.lineno, in_function, for_types)
        elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for statement in node.body:
                yield from walk(statement, in_function, True)
            for statement in node.orelse:
                yield from walk(statement, in_function, for_types)
        else:
            inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for child in below(node):
                yield from walk(child, inside, for_types)

    return walk(tree, False, False)


def _targets(node: ast.ImportFrom, module: str, is_package: bool) -> list[str]:
    start = module.split(".")
    if node.level:
        start = start[: len(start) - node.level + (1 if is_package else 0)]
        base = ".".join([*start, *([node.module] if node.module else [])])
    else:
        base = node.module or ""
    # `from airflow_samza import spark` imports a layer, too.
    return [f"{base}.{alias.name}" for alias in node.names] if base == "airflow_samza" else [base]


def broken_rule(layer: str, found: Import) -> str:
    """The rule that an import breaks, or nothing."""
    top, *rest = found.module.split(".")
    if top == "airflow_samza":
        return _broken_direction(layer, rest[0] if rest else "")
    if top in sys.stdlib_module_names or found.for_types_only:
        return ""
    where = THIRD_PARTY[layer].get(top)
    if where is None:
        allowed = ", ".join(sorted(THIRD_PARTY[layer])) or "the standard library only"
        return f"{layer} may import {allowed}"
    if where == FUNCTIONS_ONLY and not found.in_function:
        return f"{layer} imports {top} inside functions only"
    return ""


def _broken_direction(layer: str, target: str) -> str:
    if target == layer:
        return ""
    rank = {name: number for number, group in enumerate(LAYERS) for name in group}
    if target not in rank:
        return "" if target == "__version__" else f"{target or 'airflow_samza itself'} is not in the table of layers"
    if rank[target] < rank[layer]:
        return ""
    left = ", ".join(name for group in LAYERS[: rank[layer]] for name in group) or "nothing"
    return f"{layer} may import only what stands to its left: {left}"


def violations(source: str, path: str) -> list[str]:
    """The findings about a module of the package (its path below the package's folder), against the table."""
    parts = Path(path).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    module = ".".join(["airflow_samza", *(parts[:-1] if is_package else parts)])
    layer = parts[0]
    return [
        f"airflow_samza/{path}:{found.line} imports {found.module}, but {rule}"
        for found in imports_of(parsed(source), module, is_package)
        if (rule := broken_rule(layer, found))
    ]


def room_violations(source: str, path: str) -> list[str]:
    """Return the imports of a module of a large package that point to a room to the right of its own."""
    package, room = (*Path(path).with_suffix("").parts, "")[:2]
    if package not in ROOMS or room == "__init__":
        return []
    rank = {name: number for number, group in enumerate(ROOMS[package]) for name in group}
    broken = []
    for found in imports_of(parsed(source), "airflow_samza", is_package=True):
        top, layer, *rest = (*found.module.split("."), "")
        target = rest[0] if rest else ""
        if (
            (top, layer) == ("airflow_samza", package)
            and target in rank
            and target != room
            and rank[target] >= rank[room]
        ):
            broken.append(
                f"airflow_samza/{path}:{found.line} imports {found.module}, but {package}/{room} does not stand to "
                "the right of it"
            )
    return broken


def modules() -> list[Path]:
    return sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def test_every_package_and_module_has_its_place_in_the_table() -> None:
    known = {name for group in LAYERS for name in group}
    assert {path.parts[0].removesuffix(".py") for path in modules()} <= known
    assert set(THIRD_PARTY) == known


@pytest.mark.parametrize("package", ROOMS)
def test_every_room_of_a_large_package_has_its_place_in_the_table(package: str) -> None:
    known = {name for group in ROOMS[package] for name in group}
    assert {path.stem for path in (PACKAGE / package).iterdir() if not path.name.startswith("__")} == known


def test_imports_point_to_the_left_only() -> None:
    found = []
    for path in modules():
        source = (PACKAGE / path).read_text(encoding="utf-8")
        found += violations(source, path.as_posix()) + room_violations(source, path.as_posix())
    assert not found, "\n" + "\n".join(found)


def circles() -> list[set[str]]:
    """Return the groups of our modules that import each other, at the top, in functions or for type checkers."""
    imported: dict[str, set[str]] = {}
    names = {
        f"airflow_samza.{'.'.join(path.with_suffix('').parts)}".removesuffix(".__init__"): path for path in modules()
    }
    for name, path in names.items():
        source = (PACKAGE / path).read_text(encoding="utf-8")
        imported[name] = imported_modules(parsed(source), name, path.name == "__init__.py", names.keys()) - {name}

    def reached(start: str) -> set[str]:
        found, left = set[str](), [start]
        while left:
            for target in imported[left.pop()] - found:
                found.add(target)
                left.append(target)
        return found

    reach = {name: reached(name) for name in names}
    found = {frozenset(other for other in reach[name] if name in reach[other]) for name in names if name in reach[name]}
    return sorted(map(set, found), key=sorted)


def imported_modules(tree: ast.Module, module: str, is_package: bool, known: Collection[str]) -> set[str]:
    """Return those of the known modules that a module imports, wherever in it."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    found = set()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            inner = {f"{base}.{alias.name}" for alias in node.names}
            found |= inner if inner <= set(known) else {base, *inner}
    return found & set(known)


def test_no_modules_import_each_other() -> None:
    assert circles() == []


@pytest.mark.parametrize(
    "source",
    [
        "from airflow_samza.task.loop import reading",
        "from airflow_samza.task.loop.reading import read",
        "import airflow_samza.task.loop.reading",
        "from . import reading",
        "def f():\n    from .reading import read",
        "if TYPE_CHECKING:\n    from ..loop.reading import read",
    ],
)
def test_every_form_of_import_counts_in_a_circle(source: str) -> None:
    reading = "airflow_samza.task.loop.reading"
    assert imported_modules(parsed(source), "airflow_samza.task.loop.run_loop", False, {reading}) == {reading}


def test_the_package_itself_imports_its_names_lazily() -> None:
    tree = parsed((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    eager = [
        f"line {found.line} imports {found.module}"
        for found in imports_of(tree, "airflow_samza", True)
        if not found.for_types_only
        and not found.in_function
        and found.module.split(".")[0] not in sys.stdlib_module_names
    ]
    assert not eager


@pytest.mark.parametrize(
    ("path", "source", "rule"),
    [
        (
            "planner/plan.py",
            "from airflow_samza.spark import session",
            "planner may import only what stands to its left",
        ),
        ("planner/plan.py", "from airflow_samza import spark", "planner may import only what stands to its left"),
        ("planner/plan.py", "from ..spark.session import start", "planner may import only what stands to its left"),
        (
            "planner/plan.py",
            "def f():\n    import airflow_samza.cli",
            "planner may import only what stands to its left",
        ),
        ("planner/plan.py", "if TYPE_CHECKING:\n    from airflow_samza.runs import names", "planner may import only"),
        ("planner/plan.py", "import numpy", "planner may import the standard library only"),
        ("runs/finish.py", "def f():\n    import pyspark.sql", "runs may import pendulum, psutil"),
        ("cli.py", "import airflow.sdk", "cli may import"),
        (
            "provider/hooks/samza.py",
            "from airflow_samza import cli",
            "provider may import only what stands to its left",
        ),
        ("schema/data_type.py", "import pyarrow as pa", "schema imports pyarrow inside functions only"),
        ("task/sql.py", "class A:\n    import sqlglot", "task imports sqlglot inside functions only"),
        ("control/x.py", "from airflow_samza.chooser import y", "control may import only"),
        ("task/x.py", "import airflow_samza", "airflow_samza itself is not in the table of layers"),
    ],
)
def test_a_broken_rule_is_named_with_file_line_and_import(path: str, source: str, rule: str) -> None:
    (found,) = violations(source, path)
    assert f"airflow_samza/{path}:{source.count(chr(10)) + 1} imports " in found
    assert rule in found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("planner/plan.py", "from airflow_samza.application.application import ApplicationSpec"),
        ("planner/plan.py", "from .counts import fix"),
        ("planner/__init__.py", "from .plan import ExecutionPlan"),
        ("schema/data_type.py", "def f():\n    import pyarrow as pa"),
        ("schema/data_type.py", "if TYPE_CHECKING:\n    import pyarrow as pa"),
        ("application/message_stream.py", "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame"),
        ("task/sql.py", "def f():\n    def g():\n        from sqlglot import exp"),
        ("provider/hooks/samza.py", "from airflow.sdk import BaseHook"),
    ],
)
def test_what_the_table_allows_passes(path: str, source: str) -> None:
    assert violations(source, path) == []
