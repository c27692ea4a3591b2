"""Values and keys of a megabyte come through topics, aggregations, tables and every format of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_samza import count, max_, stream_application
from airflow_samza.systems.files.formats.options import FORMATS
from airflow_samza.systems.system import SystemBinding
from tests.support.runs_here import Here

MEGABYTE = 1 << 20


@stream_application("large")
def large(app: Any) -> None:
    """Count rows by a large key, join them with a table by it, and write all to each format."""
    schema = "k string, n bigint, v string"
    rows = app.input_stream("rows", system="lake", path="in/*.jsonl", schema=schema, partitions=2)
    by_key = rows.partition_by("k", id="by-key")
    table = app.local_table("values", key="k", schema="k string, total bigint, greatest string")
    totals = by_key.aggregate("k", id="totals", total=count(), greatest=max_("v"))
    totals.send_to(table)
    for name in FORMATS:
        totals.send_to(app.output_stream(f"totals-{name}", system="lake", format=name))
    by_key.select("k", "length(v) AS size", "n").send_to(app.output_stream("sizes", system="log"))


@stream_application("large-again")
def again(app: Any) -> None:
    """Read what was written in each format."""
    schema = "k string, total bigint, greatest string"
    for name in FORMATS:
        rows = app.input_stream(name, system="lake", path=f"totals-{name}", format=name, schema=schema, partitions=1)
        rows.send_to(app.output_stream(f"read-{name}", system="log"))


@pytest.fixture
def here(tmp_path: Path) -> Here:
    (tmp_path / "lake/in").mkdir(parents=True)
    for part in range(2):
        with (tmp_path / f"lake/in/{part}.jsonl").open("w") as file:
            for n in range(6):
                file.write(json.dumps({"k": key(n % 3), "n": n, "v": value(part * 6 + n)}) + "\n")
    return Here(tmp_path / "root", bindings={"lake": SystemBinding("files", {"root": str(tmp_path / "lake")})})


def key(number: int) -> str:
    return "k" * (MEGABYTE - 1) + str(number)  # they differ in the last place


def value(number: int) -> str:
    return "ü" * (MEGABYTE // 2) + f"{number:02}"


@pytest.mark.extended
def test_values_and_keys_of_a_megabyte_come_through(here: Here) -> None:
    here.whole(f"{__name__}:large", "run-1")
    sizes = here.rows("sizes")
    assert sorted((row["k"][-1], row["size"], row["n"]) for row in sizes) == sorted(
        (str(n % 3), MEGABYTE // 2 + 2, n) for n in range(6) for _ in range(2)
    )
    here.whole(f"{__name__}:again", "run-1")
    for name in FORMATS:
        found = {row["k"]: (row["total"], row["greatest"]) for row in here.rows(f"read-{name}")}
        assert found == {key(n): (4, value(9 + n)) for n in range(3)}, name
