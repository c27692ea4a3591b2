"""Premises of a release: version, changelog, tag and the files of the archives."""

from __future__ import annotations

import pytest

from scripts.release_checks import (
    Problem,
    version_in,
    wrong_in_changelog,
    wrong_in_sdist,
    wrong_in_tree,
    wrong_in_wheel,
)

GOOD = "# Changelog\n\nText.\n\n## 0.2.0 (2026-12-01)\n\n### Added\n\n- A thing.\n\n## 0.1.0 (2026-11-01)\n\n- More.\n"


def test_the_version_is_that_of_the_package() -> None:
    import airflow_samza

    assert version_in(f'"""Docs."""\n\n__version__ = "{airflow_samza.__version__}"\n') == airflow_samza.__version__
    with pytest.raises(Problem, match=r"sets no __version__"):
        version_in("version = '1'")


def test_a_section_with_a_date_and_entries_can_be_released() -> None:
    assert list(wrong_in_changelog(GOOD, "0.2.0")) == []


@pytest.mark.parametrize(
    ("text", "version", "wrong"),
    [
        (GOOD, "0.3.0", "does not begin with 0.3.0, its first section is 0.2.0"),
        (GOOD, "0.1.0", "does not begin with 0.1.0, its first section is 0.2.0"),
        ("# Changelog\n", "0.1.0", "does not begin with 0.1.0, it has no section"),
        (GOOD.replace("2026-12-01", "not released"), "0.2.0", "calls 0.2.0 '(not released)': put the day"),
        (GOOD.replace("2026-12-01", "December"), "0.2.0", "dates 0.2.0 '(December)': write the day as"),
        (GOOD.replace("- A thing.", ""), "0.2.0", "says nothing about 0.2.0"),
    ],
)
def test_rejects_a_changelog_that_is_not_that_of_the_release(text: str, version: str, wrong: str) -> None:
    (found,) = wrong_in_changelog(text, version)
    assert wrong in found


def test_a_clean_checkout_of_the_tag_can_be_released() -> None:
    assert list(wrong_in_tree("0.2.0", "", ["v0.2.0", "nightly"])) == []


@pytest.mark.parametrize(
    ("version", "status", "tags", "wrong"),
    [
        ("0.2.0", " M a.py\n?? b\n", ["v0.2.0"], "Files differ from the commit (a.py, b): commit them."),
        ("0.2.0", "", [], "The commit lacks the tag v0.2.0: tag it"),
        ("0.2.0", "", ["v0.1.0"], "lacks the tag v0.2.0 (it has v0.1.0)"),
        ("0.3.0.dev0", "", ["v0.3.0.dev0"], "The version 0.3.0.dev0 is not that of a release"),
    ],
)
def test_rejects_a_checkout_that_is_not_the_tag(version: str, status: str, tags: list[str], wrong: str) -> None:
    (found,) = wrong_in_tree(version, status, tags)
    assert wrong in found


TRACKED = {
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "constraints.txt",
    "pyproject.toml",
    "airflow_samza/__init__.py",
    "airflow_samza/py.typed",
    "airflow_samza/provider/page/static/index.html",
    "airflow_samza/provider/page/web/src/main.ts",
    "tests/unit/test_one.py",
}
METADATA = [f"airflow_samza-0.2.0.dist-info/{name}" for name in ("METADATA", "RECORD", "licenses/LICENSE")]


def test_an_sdist_of_the_repositorys_files_can_be_released() -> None:
    assert list(wrong_in_sdist([f"airflow_samza-0.2.0/{name}" for name in {*TRACKED, "PKG-INFO"}], TRACKED)) == []


def test_rejects_an_sdist_with_a_stray_file_or_without_what_it_needs() -> None:
    names = [f"airflow_samza-0.2.0/{name}" for name in {*TRACKED, "docs/draft.md"} - {"constraints.txt"}]
    assert list(wrong_in_sdist(names, TRACKED)) == [
        "The sdist has docs/draft.md, which is not in the repository.",
        "The sdist lacks constraints.txt.",
    ]


def of_the_wheel() -> set[str]:
    inside = {name for name in TRACKED if name.startswith("airflow_samza/") and "/web/" not in name}
    return {*inside, *METADATA}


def test_a_wheel_of_the_package_without_the_sources_of_its_page_can_be_released() -> None:
    assert list(wrong_in_wheel(of_the_wheel(), TRACKED)) == []


@pytest.mark.parametrize("stray", ["tests/unit/test_one.py", "airflow_samza/provider/page/web/src/main.ts", "x.pyc"])
def test_rejects_a_wheel_with_a_stray_file(stray: str) -> None:
    (found,) = wrong_in_wheel({*of_the_wheel(), stray}, TRACKED)
    assert found == f"The wheel has {stray}, which is not one of the package's files in the repository."


@pytest.mark.parametrize(
    ("missing", "wrong"),
    [
        ("airflow_samza/py.typed", "The wheel lacks airflow_samza/py.typed."),
        (
            "airflow_samza/provider/page/static/index.html",
            "The wheel lacks airflow_samza/provider/page/static/index.html.",
        ),
        ("airflow_samza-0.2.0.dist-info/licenses/LICENSE", "The wheel lacks the licence."),
    ],
)
def test_rejects_a_wheel_that_lacks_a_file(missing: str, wrong: str) -> None:
    assert list(wrong_in_wheel(of_the_wheel() - {missing}, TRACKED)) == [wrong]
