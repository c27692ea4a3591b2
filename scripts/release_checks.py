"""Checks of a release: ``ready`` before it is built, ``contents`` of what was built; ``release.sh`` runs both.

A commit that bears the tag of its version is released, and then whatever is wrong ends the command. Any other commit is
tried: what would keep it from being released is printed, and the files are built all the same.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "airflow_samza"
UNRELEASED = "not released"
PAGE_SOURCES = f"{PACKAGE}/provider/page/web/"
MADE_BY_THE_BUILD = {"PKG-INFO"}


class Problem(Exception):
    """Error for something that must not be released; one sentence with the remedy."""


def version_in(text: str) -> str:
    """Return the version that the package's ``__init__.py`` sets.

    >>> version_in('__version__ = "0.2.0"')
    '0.2.0'
    """
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise Problem(f'{PACKAGE}/__init__.py sets no __version__: write it as __version__ = "0.2.0".')
    return found[1]


def wrong_in_changelog(text: str, version: str) -> Iterator[str]:
    """Yield what is wrong with the section of a version: it stands first, has a date, and says something."""
    sections = re.findall(r"^## (\S+) \(([^)\n]*)\)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    first = next((section for section in sections), None)
    if first is None or first[0] != version:
        known = f"its first section is {first[0]}" if first else "it has no section"
        yield f"CHANGELOG.md does not begin with {version}, {known}: write '## {version} (YYYY-MM-DD)'."
        return
    _, date, body = first
    if date == UNRELEASED:
        yield f"CHANGELOG.md calls {version} '({UNRELEASED})': put the day of the release there."
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        yield f"CHANGELOG.md dates {version} '({date})': write the day as (YYYY-MM-DD)."
    if not re.search(r"^- ", body, re.MULTILINE):
        yield f"CHANGELOG.md says nothing about {version}: list what users notice."


def wrong_in_tree(version: str, status: str, tags: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with the checkout: it has no changes, and its commit has the version's tag and no other."""
    if status.strip():
        changed = [line[3:] for line in status.splitlines()]
        yield f"Files differ from the commit ({', '.join(changed[:3])}{', …' if changed[3:] else ''}): commit them."
    if re.search(r"[^\d.]", version):
        yield f"The version {version} is not that of a release: set __version__ in {PACKAGE}/__init__.py."
    others = [tag for tag in tags if re.match(r"v\d", tag)]
    if f"v{version}" not in others:
        named = f" (it has {', '.join(others)})" if others else ""
        yield f"The commit lacks the tag v{version}{named}: tag it as docs/project/releasing.md says."


def ready() -> int:
    """Print what keeps this checkout from being released; return 1 where it is tagged for a release all the same."""
    version = version_in((ROOT / PACKAGE / "__init__.py").read_text())
    tags = _git("tag", "--points-at", "HEAD").split()
    wrong = [
        *wrong_in_tree(version, _git("status", "--porcelain"), tags),
        *wrong_in_changelog((ROOT / "CHANGELOG.md").read_text(), version),
    ]
    tagged = any(re.match(r"v\d", tag) for tag in tags)
    if not wrong:
        print(f"airflow-samza {version} is released from its tag.")
    elif tagged:
        print(f"airflow-samza {version} cannot be released:")
    else:
        print(f"A trial of airflow-samza {version}. Before it is released:")
    print("".join(f"  - {each}\n" for each in wrong), end="", flush=True)
    return 1 if wrong and tagged else 0


def wrong_in_sdist(names: Iterable[str], tracked: set[str]) -> Iterator[str]:
    """Yield what an sdist has beside the repository's files, and what it lacks to build a wheel."""
    files = {name.partition("/")[2] for name in names}
    for stray in sorted(files - tracked - MADE_BY_THE_BUILD):
        yield f"The sdist has {stray}, which is not in the repository."
    for needed in ("LICENSE", "README.md", "pyproject.toml", "CHANGELOG.md", "constraints.txt"):
        if needed not in files:
            yield f"The sdist lacks {needed}."


def wrong_in_wheel(names: Iterable[str], tracked: set[str]) -> Iterator[str]:
    """Yield how a wheel differs from the package in the repository, which has the sources of the page, too."""
    files = set(names)
    metadata = {name for name in files if re.match(rf"{PACKAGE}-[^/]+\.dist-info/", name)}
    expected = {name for name in tracked if name.startswith(f"{PACKAGE}/") and not name.startswith(PAGE_SOURCES)}
    for stray in sorted(files - metadata - expected):
        yield f"The wheel has {stray}, which is not one of the package's files in the repository."
    for missing in sorted(expected - files):
        yield f"The wheel lacks {missing}."
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in metadata):
        yield "The wheel lacks the licence."


def contents(folder: Path) -> int:
    """Print what is wrong with the two files in a folder; return 1 where something is."""
    tracked = set(_git("ls-tree", "-r", "--name-only", "HEAD").splitlines())
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    with tarfile.open(sdist) as archive:
        wrong = [*wrong_in_sdist((each.name for each in archive if each.isfile()), tracked)]
    wrong += wrong_in_wheel(zipfile.ZipFile(wheel).namelist(), tracked)
    print("\n".join(wrong) or f"{sdist.name} and {wheel.name} have the repository's files, and no others.")
    return 1 if wrong else 0


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    try:
        sys.exit(ready() if sys.argv[1] == "ready" else contents(Path(sys.argv[2])))
    except Problem as problem:
        sys.exit(str(problem))
