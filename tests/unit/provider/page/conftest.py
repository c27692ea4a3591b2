"""The page over a root with a topic of visits."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.page_here import Page, make_page
from tests.support.runs_here import Here

APPLICATION = """
from airflow_samza import stream_application

VISIT = "country string, email string, n bigint"

def calibrated(visit):
    if visit.n < 0:
        raise ValueError(f"{visit.n} is no number of visits")
    return {"country": visit.country, "email": visit.email, "n": visit.n}

@stream_application("visits")
def visits(app):
    read = app.input_stream("visits", system="log", schema=VISIT, partitions=2, bounded=True)
    found = read.map(calibrated, schema=VISIT, id="calibrate", on_error="drop")
    moved = found.partition_by("country", id="by-country").where("n >= 0", id="there")
    moved.send_to(app.output_stream("countries", system="log", partitions=2, key="country"))

@stream_application("other-visits")
def other_visits(app):
    read = app.input_stream("visits", system="log", schema=VISIT, partitions=2, bounded=True)
    read.where("n > 0").send_to(app.output_stream("elsewhere", system="log", partitions=2, key="country"))

@stream_application("daily-visits")
def daily_visits(app):
    read = app.input_stream("visits", system="log", schema=VISIT, partitions=2, bounded=True)
    read.where("n > 0").send_to(app.output_stream("daily", system="lake", path="daily/{ds}"))

@stream_application("newest-visits")
def newest_visits(app):
    read = app.input_stream("visits", system="log", schema=VISIT, partitions=2, bounded=True, key="country")
    read.send_to(app.output_stream("newest", system="tables", table="web.newest", create=True, mode="upsert", key="country"))
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    (tmp_path / "page_app.py").write_text(APPLICATION, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    here = Here(tmp_path / "root")
    rows = [{"country": "fr", "email": "a@b.fr", "n": n} for n in range(4)] + [
        {"country": "de", "email": "c@d.de", "n": -1}
    ]
    here.log.append("visits", pa.Table.from_pylist(rows), key=["country"], partitions=2)
    return make_page(here, monkeypatch)
