"""What docs/pushes.md and docs/model-refresh.md show is true: examples run, Dags can be read, links lead to files."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "pushes.md").read_text(encoding="utf-8")
REFRESH = (DOCS / "model-refresh.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\S+) -->\n```python\n(.*?)```", PAGE, flags=re.DOTALL))


def loaded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = tmp_path / name
    path.write_text(EXAMPLES[name])
    spec = importlib.util.spec_from_file_location(f"pushes_page_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_the_applications_test_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded("pages.py", tmp_path, monkeypatch).test_views_get_their_tier()


def test_every_parameter_that_the_page_names_is_one() -> None:
    from airflow_samza.runs.push_request import PushRequest

    known = {*PushRequest.__dataclass_fields__, "source_conn_id", "table_versions", "spark_conf", "least"}
    assert set(re.findall(r"`(\w+)=", PAGE)) <= known


def test_links_lead_to_files() -> None:
    for page in (PAGE, REFRESH):
        links = [link for link in re.findall(r"\]\(([^)#]+)\)", page) if "://" not in link]
        assert links
        assert all((DOCS / link).exists() for link in links)


def test_the_dags_of_the_model_are_those_that_the_page_names() -> None:
    written = (DOCS.parent / "dags" / "delay_model.py").read_text(encoding="utf-8")
    assert re.findall(r'^with DAG\("(\w+)"', written, flags=re.MULTILINE) == re.findall(r"^\| `(\w+)` \|", REFRESH, flags=re.MULTILINE)
