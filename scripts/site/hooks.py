"""Events of MkDocs while it builds the site: pages that lie outside docs/, checks.

- README.md is the site's front page, and the other pages of the repository's first folder are pages of the site.
- A link to another file of the repository leads to a page that shows it.
- No page loads anything from another host (decision 100).
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ROOT_PAGES = {
    "README.md": "index.md",
    **{f"{name}.md": f"{name.lower()}.md" for name in ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "GLOSSARY")},
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "SECURITY.md": "security-policy.md",
}
"""Pages outside docs/, and what they are called on the site."""

SHOWN = ("", ".cfg", ".env", ".j2", ".json", ".py", ".sh", ".toml", ".yaml", ".yml")
"""Endings of files outside docs/ that a page can show as text."""

LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
FOREIGN = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//(?!localhost)[^"' >]*""")


def on_config(config: MkDocsConfig) -> None:
    """Give headings the anchors that the repository's pages link to."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug


def slug(heading: str, separator: str = "-") -> str:
    """Return a heading's anchor, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/, and those that show files to which pages link."""
    for name, place in ROOT_PAGES.items():
        files.append(File.generated(config, place, content=_text(ROOT / name, place)))
    for file in list(files.documentation_pages()):
        uri, text = file.src_uri, file.content_string
        text = text if file.generated_by else moved(text, DOCS / uri, uri)
        for target in re.findall(LINK, text):
            shown = posixpath.normpath(posixpath.join(posixpath.dirname(uri), target))
            if shown.startswith("source/") and files.get_file_from_path(shown) is None:
                files.append(File.generated(config, shown, content=_listing(shown)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links to files outside docs/ to pages of the site, and rank the page in searches."""
    uri = page.file.src_uri
    page.meta.setdefault("search", search_of(uri))
    if uri not in ROOT_PAGES.values() and not uri.startswith("source/"):
        markdown = moved(markdown, DOCS / uri, uri)
    return re.sub(r"```mermaid\n(.*?)```", boxes, markdown, flags=re.DOTALL)


def on_page_content(html: str, page: Page, **_: Any) -> None:
    """Leave the entries of errors, which are hundreds, out of the list of headings beside their page."""
    if page.file.src_uri == "reference/errors.md":
        for title in page.toc.items:
            for section in title.children:
                section.children = []


def search_of(uri: str) -> dict[str, Any]:
    """Return how a page takes part in searches: who asks wants to know how to do something, and not why it is so.

    >>> search_of("decisions/0001-a.md"), search_of("how-to/kafka.md"), search_of("project/soak.md")
    ({'exclude': True}, {'boost': 2}, {})
    """
    folder = uri.partition("/")[0]
    if folder in ("decisions", "source"):
        return {"exclude": True}
    return {"boost": 2} if folder in ("how-to", "get-started") or uri == "reference/errors.md" else {}


def on_post_build(config: MkDocsConfig) -> None:
    """Reject a site that loads anything from another host."""
    pages = Path(config.site_dir).rglob("*.html")
    foreign = sorted({found for page in pages for found in FOREIGN.findall(page.read_text(encoding="utf-8"))})
    if foreign:
        raise PluginError(f"The site would load from other hosts: {foreign}")


def _text(path: Path, uri: str) -> str:
    return moved(path.read_text(encoding="utf-8"), path, uri)


def moved(markdown: str, path: Path, uri: str) -> str:
    """Return a page's text with its links as they are from the page ``uri`` of the site."""

    def led(link: re.Match[str]) -> str:
        target = (path.parent / link[1]).resolve()
        if not target.is_relative_to(ROOT) or (uri not in ROOT_PAGES.values() and target.is_relative_to(DOCS)):
            return link[1]
        return posixpath.relpath(_place(target.relative_to(ROOT).as_posix()), posixpath.dirname(uri) or ".")

    return LINK.sub(led, markdown)


def _place(name: str) -> str:
    """Return the place on the site of a file of the repository."""
    if name in ROOT_PAGES:
        return ROOT_PAGES[name]
    return name.removeprefix("docs/") if name.startswith("docs/") else f"source/{name}.md"


def _listing(uri: str) -> str:
    name = uri.removeprefix("source/").removesuffix(".md")
    path = ROOT / name
    if not path.is_file() or path.suffix not in SHOWN:
        raise PluginError(f"A page links to {name}, which is no file that the site can show.")
    return f"# {path.name}\n\n`{name}`\n\n````{path.suffix[1:] or 'text'}\n{path.read_text(encoding='utf-8')}````\n"


def boxes(picture: re.Match[str]) -> str:
    """Return a chain of boxes, which Mermaid would draw in the browser, as HTML."""
    named = dict(re.findall(r'^ +(\w+)\["(.*)"\]$', picture[1], flags=re.MULTILINE))
    chain = re.findall(r"\w+", picture[1].rstrip().splitlines()[-1])
    return '<ol class="boxes">' + "".join(f"<li>{named[name]}</li>" for name in chain) + "</ol>\n"
