"""Versions of packages and jars that the pages tell people to install are those of the constraints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.launch.spark_versions import WITHOUT_CLIENT
from airflow_samza.spark.lacking_jars import find_lacking
from tests.support.documentation_pages import DOCS

ROOT = DOCS.parent
PINNED = dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "requirements.txt").read_text(), flags=re.MULTILINE))
OTHER_ENVIRONMENT = {f"pyspark=={version}" for version in WITHOUT_CLIENT.values()}
"""Packages that are installed beside no Airflow, with a Spark of its own."""

PAGES = sorted(
    page
    for page in (ROOT / "README.md", *DOCS.rglob("*.md"))
    if page.parent.name not in {"decisions", "project"} and page.name != "errors.md"
)


def hadoop() -> str:
    lacking = find_lacking("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "a test")
    assert lacking is not None
    return str(lacking.facts["package"]).rpartition(":")[2]


def other_versions(text: str) -> Iterator[str]:
    """The packages and jars of a page with another version than the constraints, or than Spark's own Hadoop."""
    for found in re.finditer(r"\b([\w-]+)==(\d[\w.]*\w)", text):
        if found[2] != PINNED.get(found[1], found[2]) and found[0] not in OTHER_ENVIRONMENT:
            yield found[0]
    for found in re.finditer(r"\borg\.apache\.(spark|hadoop):[\w.-]+:(\d[\d.]*\d)", text):
        if found[2] != (PINNED["pyspark"] if found[1] == "spark" else hadoop()):
            yield found[0]


@pytest.mark.parametrize("page", [page.relative_to(ROOT).as_posix() for page in PAGES])
def test_a_page_names_the_versions_that_are_tested(page: str) -> None:
    assert list(other_versions((ROOT / page).read_text(encoding="utf-8"))) == []


def test_another_version_is_found() -> None:
    spark = PINNED["pyspark"]
    text = f'pip install "pyspark=={spark}" "pandas==1.0" other==1.0; org.apache.spark:spark-avro_2.13:4.1.1,'
    assert list(other_versions(text)) == ["pandas==1.0", "org.apache.spark:spark-avro_2.13:4.1.1"]
    assert list(other_versions(f"org.apache.spark:spark-avro_2.13:{spark}")) == []


def test_the_jar_of_avro_that_tests_read_with_is_of_the_same_spark() -> None:
    lines = Path(ROOT, "scripts", "jars", "sources", "SHA256SUMS").read_text().split()
    assert f"spark-avro_2.13-{PINNED['pyspark']}.jar" in lines
