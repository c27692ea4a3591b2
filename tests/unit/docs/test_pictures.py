"""Plans and pictures on pages are those of the examples beside them; ``WRITE_PICTURES=1`` draws the pictures anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_samza.planner.explain import explain
from airflow_samza.testing import TestDriver
from scripts.site.rule_pictures import pictures
from tests.support.documentation_pages import DOCS, loaded, text_of


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


def test_a_key_is_red_only_where_its_partner_lies_in_another_partition() -> None:
    wrong = {name: drawn.count('class="wrong"') for name, drawn in pictures().items()}
    assert wrong["rule-one.svg"] == wrong["rule-two.svg"] == 0
    assert wrong["rule-one-rejected.svg"] > 0 < wrong["rule-three.svg"]
