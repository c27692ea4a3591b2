"""Files of which several partitions read parts, behind an operator that assumes how keys lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza import count, stream_application
from airflow_samza.errors import PartitioningMismatch
from airflow_samza.systems.system import SystemBinding
from tests.support.runs_here import Here


def per_country(app: Any, partitions: int = 2) -> None:
    visits = app.input_stream(
        "visits", system="lake", path="visits", format="parquet", schema="country string", partitions=partitions
    )
    counted = visits.aggregate("country", n=count(), id="per-country", assume_partitioned_by="country")
    counted.send_to(app.output_stream("counts", system="log"))


@stream_application("countries")
def countries(app: Any) -> None:
    """Visits by country, of which each has a file."""
    per_country(app)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    (tmp_path / "lake" / "visits").mkdir(parents=True)
    return Here(tmp_path / "root", bindings={"lake": SystemBinding("files", {"root": str(tmp_path / "lake")})})


def write(here: Here, country: str, rows: int) -> None:
    table = pa.table({"country": [country] * rows})
    pq.write_table(table, Path(here.root).parent / "lake" / "visits" / f"{country}.parquet", row_group_size=10)


NAME = f"{__name__}:countries"


def test_files_that_are_read_whole_may_be_assumed_to_have_all_of_a_key(here: Here) -> None:
    for country in ("at", "be"):
        write(here, country, 30)
    here.whole(NAME, "run-1")
    assert sorted((row["country"], row["n"]) for row in here.rows("counts")) == [("at", 30), ("be", 30)]


def test_rejects_a_file_that_is_cut_between_partitions(here: Here) -> None:
    write(here, "at", 10)
    write(here, "be", 90)
    with pytest.raises(
        PartitioningMismatch, match=r"several partitions read parts of the file .*be\.parquet of 'visits'"
    ):
        here.plan(NAME, "run-1")
