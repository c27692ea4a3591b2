"""The page as browsers load it: built from the sources beside it, complete, and without addresses of elsewhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

PAGE = Path(__file__).parents[4] / "airflow_samza" / "provider" / "page"
WEB, STATIC = PAGE / "web", PAGE / "static"


def sources() -> list[str]:
    """The files of which the bundle is made, as ``vite.config.ts`` lists them."""
    found = [path.relative_to(WEB).as_posix() for path in (WEB / "src").rglob("*") if path.is_file()]
    return sorted([*found, "index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"])


def test_the_bundle_is_built_from_the_sources() -> None:
    digest = hashlib.sha256()
    for name in sources():
        digest.update(f"{name}\0".encode() + (WEB / name).read_bytes() + b"\0")
    assert (STATIC / "sources.sha256").read_text().strip() == digest.hexdigest(), "Build the page anew: make page."


def test_every_file_that_the_page_names_is_in_the_bundle() -> None:
    named = set(re.findall(r'(?:src|href)="\./([^"]+)"', (STATIC / "index.html").read_text())) - {""}
    assert any(name.endswith(".js") for name in named)
    for name in [path.relative_to(STATIC).as_posix() for path in (STATIC / "assets").glob("*.js")]:
        text = (STATIC / name).read_text(encoding="utf-8")
        found = re.findall(r'["`](?:[./\w]*/)?([\w.-]+-[\w-]{8}\.(?:js|css))["`]', text)
        named |= {f"assets/{one}" for one in found}
    assert [name for name in sorted(named) if not (STATIC / name).is_file()] == []


def test_the_page_has_the_place_for_its_own_address_before_all_others() -> None:
    text = (STATIC / "index.html").read_text()
    assert 0 < text.index('<base href="./" />') < text.index("./assets/")


def test_the_page_has_no_inline_script_and_loads_nothing_from_elsewhere() -> None:
    text = (STATIC / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert re.findall(r'(?:src|href)="(?:https?:)?//', text) == []
    styles = "".join(path.read_text(encoding="utf-8") for path in (STATIC / "assets").glob("*.css"))
    assert re.findall(r"url\((?!['\"]?data:)|@import", styles) == []


def test_the_licences_of_everything_in_the_bundle_lie_beside_it() -> None:
    licences = (STATIC / "licenses.md").read_text()
    for name in ("react", "@xyflow/react", "elkjs", "@tanstack/react-query"):
        assert f"\n## {name} - " in licences


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (WEB / "package-lock.json").read_text()
