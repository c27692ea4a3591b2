"""The registry of kinds of systems: what it knows without loading anything, and that nothing else knows a kind by name."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza import system_kinds
from airflow_samza.errors import ConfigError, RuntimeMissing
from airflow_samza.system_kinds import BUILT_IN, SystemKind, SystemTraits, find_kind, kinds, traits_of
from airflow_samza.systems import capabilities
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.memory.system import MemorySystem
from airflow_samza.systems.system import SystemBinding
from tests.support.syntax_trees import parsed

PACKAGE = Path(__file__).parents[2] / "airflow_samza"

PLUGIN = """
from airflow_samza.system_kinds import SystemKind, SystemTraits
from airflow_samza.systems.memory.system import MemorySystem


class Plugged(MemorySystem):
    kind = "plugged"


PLUGGED = SystemKind("plugged_system:Plugged", SystemTraits(in_one_process=True, unkeyed_splits=True))
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with two entry points is installed."""
    (tmp_path / "plugged_system.py").write_text(PLUGIN)
    info = tmp_path / "plugged_system-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-system\nVersion: 1.0\n")
    points = "plugged = plugged_system:PLUGGED\nwrong = plugged_system:Plugged\nlog = plugged_system:PLUGGED\n"
    (info / "entry_points.txt").write_text(f"[{system_kinds.GROUP}]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))
    system_kinds.plugged.cache_clear()
    yield
    system_kinds.plugged.cache_clear()


def test_traits_are_known_without_loading_a_system() -> None:
    program = (
        "import sys\nfrom airflow_samza.system_kinds import BUILT_IN, kinds, traits_of\n"
        "assert all(traits_of(kind) is BUILT_IN[kind].traits for kind in BUILT_IN)\n"
        "assert 'importlib.metadata' not in sys.modules\n"
        "assert [kind for kind in kinds() if traits_of(kind).unkeyed_splits]\n"
        "assert traits_of('pulsar') == traits_of(None)\n"
        "print(*sorted(name for name in sys.modules if name.startswith(('airflow_samza.systems', 'pyarrow', 'numpy'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_kind_that_nobody_knows_has_the_traits_of_ordinary_topics() -> None:
    assert traits_of("nobody's") == traits_of(None) == SystemTraits()
    assert find_kind("nobody's") is None


@pytest.mark.usefixtures("installed")
def test_an_installed_package_adds_a_kind_by_an_entry_point(tmp_path: Path) -> None:
    assert kinds() == (*BUILT_IN, "plugged", "wrong")
    assert "plugged_system" not in sys.modules
    assert traits_of("plugged").unkeyed_splits
    bound = bind_system("streams", SystemBinding("plugged"), str(tmp_path))
    assert isinstance(bound, MemorySystem)
    assert (bound.name, bound.kind) == ("streams", "plugged")


@pytest.mark.usefixtures("installed")
def test_an_installed_package_replaces_no_kind_of_ours() -> None:
    assert find_kind("log") is BUILT_IN["log"]


@pytest.mark.usefixtures("installed")
def test_rejects_an_entry_point_that_names_no_kind() -> None:
    with pytest.raises(
        ConfigError, match=r"entry point 'wrong' of the group airflow_samza\.systems is plugged_system:Plugged"
    ):
        find_kind("wrong")


SYSTEMS = {"LogSystem", "MemorySystem", "FilesSystem", "SparkSystem"}


PROBED = {
    name
    for protocol in vars(capabilities).values()
    if isinstance(protocol, type) and protocol.__module__ == capabilities.__name__
    for name in vars(protocol)
    if not name.startswith("_")
}
"""The names of what systems and their producers can do."""


def kinds_by_name(source: str) -> list[str]:
    """Return the expressions of a module that compare a kind with a name, ask for a system's class, or probe it."""
    found = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = {c.value for side in sides for c in ast.walk(side) if isinstance(c, ast.Constant)}
            others = (side for side in sides if not isinstance(side, ast.Constant))
            if texts & set(BUILT_IN) and any("kind" in ast.unparse(side).lower() for side in others):
                found.append(ast.unparse(node))
        elif not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        elif node.func.id == "isinstance":
            classes = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
            found += [ast.unparse(node)] if classes & SYSTEMS else []
        elif node.func.id in ("getattr", "hasattr"):
            of, name = map(ast.unparse, node.args[:2])
            probes = of.rpartition(".")[2] in ("system", "bound", "writer", "producer") and name.strip("'") in PROBED
            found += [ast.unparse(node)] if probes else []
    return found


def test_no_module_but_the_registry_knows_a_kind_by_name() -> None:
    assert kinds_by_name("if kind in ('files', 'spark') or isinstance(system, LogSystem | MemorySystem): ...")
    assert kinds_by_name("getattr(system, 'has_news', None)")
    modules = (path for path in sorted(PACKAGE.rglob("*.py")) if path.parent.name != "systems")
    asked = {str(path.relative_to(PACKAGE)): kinds_by_name(path.read_text(encoding="utf-8")) for path in modules}
    assert {path: found for path, found in asked.items() if found} == {}


def test_rejects_a_kind_whose_client_is_not_installed_and_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN, "far", SystemKind("no_such_client.system:Far", extra="far"))
    with pytest.raises(RuntimeMissing, match="The system 'events' of kind far needs no_such_client") as error:
        bind_system("events", SystemBinding("far"), "")
    assert "airflow-samza[far]" in str(error.value)
