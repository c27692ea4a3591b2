"""The Dag files on the how-to and operate pages can be read by Airflow, beside the applications of ``dags/``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from tests.support.documentation_pages import DOCS, examples, loaded

PAGES = sorted(
    path.relative_to(DOCS).as_posix() for folder in ("how-to", "operate") for path in (DOCS / folder).glob("*.md")
)
FILES = [(page, name) for page in PAGES for name in examples(page) if name.endswith("dag.py")]


@pytest.fixture(autouse=True)
def applications_of_dags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``pipelines`` be the folder beside the example Dags."""
    monkeypatch.syspath_prepend(str(DOCS.parent / "dags"))


@pytest.fixture
def dags(monkeypatch: pytest.MonkeyPatch) -> list[DAG]:
    """Return a list to which every Dag is added that is made from now on."""
    made: list[DAG] = []
    make: Any = DAG.__init__

    def remember(dag: DAG, *args: Any, **named: Any) -> None:
        make(dag, *args, **named)
        made.append(dag)

    monkeypatch.setattr(DAG, "__init__", remember)
    return made


@pytest.mark.parametrize(("page", "name"), FILES)
def test_each_dag_of_a_page_has_tasks(
    page: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dags: list[DAG]
) -> None:
    loaded(page, name, tmp_path, monkeypatch)
    assert dags
    assert [dag.dag_id for dag in dags if not dag.task_ids] == []
