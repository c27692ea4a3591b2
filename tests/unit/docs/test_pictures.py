"""Plans and pictures on pages are those of the examples beside them; ``WRITE_PICTURES=1`` draws the pictures anew.

Figures in the answers of benchmarks are those of their tables.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from airflow_samza.planner.explain import explain
from airflow_samza.testing import TestDriver
from scripts.site.rule_pictures import pictures
from tests.support.documentation_pages import DOCS, loaded, text_of

LIGHT, DARK = ("light", "#gh-light-mode-only"), ("dark", "#gh-dark-mode-only")
"""Forms of a picture, with the ends of addresses by which code hosts and the site show one of them."""


@pytest.mark.parametrize(("page", "example", "application"), [("concepts/partitions.md", "partitions.py", "enriched")])
def test_the_text_is_the_plan_of_the_example(
    page: str, example: str, application: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = TestDriver(getattr(loaded(page, example, tmp_path, monkeypatch), application)).plan
    assert f"```text\n{explain(plan).strip()}\n```" in text_of(page)


def test_the_pictures_of_the_rules_are_drawn_by_the_partitioner() -> None:
    for name, drawn in pictures().items():
        picture = DOCS / "images" / name
        if os.environ.get("WRITE_PICTURES"):
            picture.write_text(drawn, encoding="utf-8")
        assert f"](../images/{name})" in text_of("concepts/partitions.md")
        assert picture.read_text(encoding="utf-8") == drawn


def test_a_picture_with_a_dark_form_is_shown_in_both() -> None:
    shown = {
        path: re.findall(r"\(([^)]*)-(light|dark)\.png(\S*)\)", path.read_text(encoding="utf-8"))
        for path in DOCS.rglob("*.md")
    }
    light = {(path, name) for path, found in shown.items() for name, form, end in found if (form, end) == LIGHT}
    dark = {(path, name) for path, found in shown.items() for name, form, end in found if (form, end) == DARK}
    assert light == dark
    assert len(light) + len(dark) == sum(map(len, shown.values())) >= 20


@pytest.mark.parametrize("page", ["benchmarks", "benchmarks-kafka", "benchmarks-lake"])
def test_benchmarks_begin_with_their_answer_in_figures_of_the_page(page: str) -> None:
    answer, _, rest = text_of(f"project/{page}.md").split("\n\n", 1)[1].partition("\n\n")
    assert len(re.findall("^- ", answer, flags=re.MULTILINE)) == len(answer.splitlines()) == 3
    figures = re.findall(r"\b\d+\.\d+", answer)
    assert figures
    assert [figure for figure in figures if not re.search(rf"\b{re.escape(figure)}(?!\d)", rest)] == []


def test_a_key_is_red_only_where_its_partner_lies_in_another_partition() -> None:
    wrong = {name: drawn.count('class="wrong"') for name, drawn in pictures().items()}
    assert wrong["rule-one.svg"] == wrong["rule-two.svg"] == 0
    assert wrong["rule-one-rejected.svg"] > 0 < wrong["rule-three.svg"]
