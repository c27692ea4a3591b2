"""What docs/pushes.md and docs/model-refresh.md show is true: examples run, Dags can be read, links lead to files."""

from __future__ import annotations

import importlib.util
import re
import sys
from datetime import date
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


def test_a_model_scores_flights_by_carrier_and_hour(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from airflow_samza import TestDriver
    from dags.pipelines.delay_model import Flight, Weights, scores, train

    (tmp_path / "flights").mkdir()
    hours = list(range(5, 21)) * 20
    flights = {"carrier": ["UA", "B6"] * (len(hours) // 2), "hour": hours, "dep_delay": [40 if hour > 14 else 0 for hour in hours]}
    pq.write_table(pa.table(flights), tmp_path / "flights" / "2013-03-04.parquet")
    weights = [Weights(**row) for row in train(tmp_path, date(2013, 3, 4))]
    at = pytest.importorskip("pendulum").datetime(2013, 3, 5, 12, tz="UTC")
    asked = [Flight("UA", 1, "EWR", 6, at), Flight("UA", 2, "EWR", 20, at), Flight("XX", 3, "EWR", 6, at)]
    run = TestDriver(scores).pipe("planned-flights", asked).table("delay-model", weights).run()
    early, late, unknown = sorted(run.output("scores"), key=lambda score: score.flight)
    assert early.late < 0.1 < 0.9 < late.late
    assert (late.trained_to, unknown.late) == ("2013-03-04", None)
