"""ARCHITECTURE.md and the pages for contributors: the files that they name exist, and every room is named."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.unit.test_layers import LAYERS

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "airflow_samza"
DOCS = ROOT / "docs"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
PAGES = [
    ARCHITECTURE,
    ROOT / "CONTRIBUTING.md",
    *(DOCS / "reference" / f"{name}.md" for name in ("layout", "runtime", "semantics")),
    *(page for room in ("decisions", "how-to-add") for page in sorted((DOCS / room).glob("*.md"))),
]
LAYOUT_MODULES = [
    "runs/records/folders.py",
    "runs/state_history/folder.py",
    "runs/tables/folder.py",
    "systems/log/topic.py",
]


def words(page: Path) -> set[str]:
    """Return what stands between backticks on a page and has no blanks."""
    return set(re.findall(r"`([^`\s]+)`", page.read_text(encoding="utf-8")))


def exists(name: str) -> bool:
    """Return True for a file or folder of the repository or the package, or for one by its name alone."""
    if (ROOT / name).exists() or (PACKAGE / name).exists():
        return True
    alone = name.rstrip("/")
    return "/" not in alone and (any(PACKAGE.rglob(alone)) or (ROOT / "tests" / alone).exists())


def test_every_file_and_folder_that_is_named_exists() -> None:
    named = {(page.name, word) for page in PAGES for word in words(page)}
    places = [(page, word) for page, word in sorted(named) if re.fullmatch(r"[\w./-]+\.(py|md|toml)|(\w+/)+", word)]
    of_a_run = {"publications/", "trash/"}  # folders under a root
    assert not [(page, word) for page, word in places if not exists(word) and word not in of_a_run]


def test_every_folder_of_the_package_is_named() -> None:
    named = {word.rstrip("/") for word in words(ARCHITECTURE)}
    folders = [path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py")]
    assert not [folder for folder in folders if folder != "." and not {folder, folder.rpartition("/")[2]} & named]


def test_the_picture_has_the_rooms_in_the_order_that_imports_keep() -> None:
    picture = re.search(r"```mermaid\n(.*?)```", ARCHITECTURE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert picture is not None
    boxes = {
        name: re.findall(r"<b>(\w+)/</b>", text)
        for name, text in re.findall(r"^ +(\w+)\[\"(.*)\"\]$", picture[1], flags=re.MULTILINE)
    }
    chain = re.findall(r"\w+", picture[1].rstrip().splitlines()[-1])
    drawn = [sorted(boxes[name]) for name in chain if boxes[name] != ["schema"]]
    folders = [
        sorted(layer for layer in group if (PACKAGE / layer).is_dir() and layer != "schema")
        for group in reversed(LAYERS)
    ]
    assert drawn == [group for group in folders if group]


def test_every_single_module_of_the_package_is_named() -> None:
    named = words(ARCHITECTURE) | {"row.py"}  # one class, for users
    assert not [path.name for path in PACKAGE.glob("*.py") if path.name != "__init__.py" and path.name not in named]


def test_architecture_is_two_pages() -> None:
    assert ARCHITECTURE.read_text(encoding="utf-8").count("\n") <= 130


def test_every_folder_and_record_under_a_root_is_on_the_page_of_the_layout() -> None:
    page = (DOCS / "reference" / "layout.md").read_text(encoding="utf-8")
    for module in LAYOUT_MODULES:
        tree = ast.parse((PACKAGE / module).read_text(encoding="utf-8"))
        paths = ["{}".join(_texts(node)) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        parts = {part for path in paths if re.fullmatch(r"[\w{}/.-]+", path) for part in path.split("/")}
        plain = {part.replace("{}", "").lstrip(".") for part in parts} - {"json", "arrow"}
        names = {name for name in plain if re.search("[a-z]{2}", name)}
        assert names
        assert not [(module, name) for name in sorted(names) if not re.search(rf"\b{re.escape(name)}\b", page)]


def _texts(node: ast.JoinedStr) -> list[str]:
    return [str(part.value) if isinstance(part, ast.Constant) else "" for part in node.values]
