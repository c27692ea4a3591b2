"""The page on systems of kind spark: its modes and places are those of the code, its jars those that tests write with."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any
from xml.etree import ElementTree

import pytest

from airflow_samza.systems.spark.tables import MODES, SparkTable
from airflow_samza.systems.system import StreamSpec, SystemBinding
from demo.java_servers import SCRIPT
from tests.support.documentation_pages import text_of
from tests.support.iceberg_by_spark import SPARK


def test_every_mode_has_its_line() -> None:
    assert all(f"| `{mode}`" in text_of("how-to/spark-system.md") for mode in MODES)


def table(binding: dict[str, Any] | None = None, **stream: Any) -> SparkTable:
    return SparkTable.of("warehouse", SystemBinding("spark", binding or {}), StreamSpec("views", **stream))


def test_a_stream_that_says_no_place_is_a_folder_below_the_root_else_a_table() -> None:
    assert table({"root": "/lake"}).path == "/lake/views"
    assert table({"root": "/lake"}, path="in/views").path == "/lake/in/views"
    assert table().table == "views"
    assert table({"root": "/lake", "format": "jdbc"}).table == "views"


def test_options_of_the_stream_stand_above_those_of_the_environment() -> None:
    found = table({"fetchsize": 10, "url": "u"}, options=(("fetchsize", "99"), ("table", "t")))
    assert (dict(found.options), found.table) == ({"fetchsize": "99", "url": "u"}, "t")


def test_only_delta_skips_what_it_has() -> None:
    assert table(format="delta", options=(("mode", "append"),)).skips_repeats
    assert not table(format="parquet").skips_repeats
    assert not table(format="parquet").delivery.exactly_once
    assert table(format="delta").delivery.exactly_once


@pytest.mark.parametrize(("format", "spark"), [("Iceberg", SPARK), ("Delta", version("pyspark"))])
def test_the_jar_of_a_format_is_the_one_that_tests_write_with_on_the_same_spark(format: str, spark: str) -> None:
    row = next(line for line in text_of("how-to/spark-system.md").splitlines() if line.startswith(f"| {format} |"))
    _, _, release, named, *_ = (cell.strip() for cell in row.split("|"))
    pom = re.sub(r'xmlns="[^"]*"', "", (SCRIPT.parent / "jars" / format.lower() / "pom.xml").read_text())
    described = ElementTree.fromstring(pom)
    values = {f"${{{one.tag}}}": one.text or "" for one in described.iterfind("properties/*")}
    first = described.find("dependencies/dependency")
    assert first is not None
    group, artifact, jar = (first.findtext(name, "") for name in ("groupId", "artifactId", "version"))
    assert spark.startswith(f"{release}.")
    assert f"`{group}:{artifact}:{values.get(jar, jar)}`" in named
