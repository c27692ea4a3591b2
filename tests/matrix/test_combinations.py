"""The combinations cover what the package says that it runs with."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest

from airflow_samza.launch.spark_versions import PAIRS, WITHOUT_CLIENT
from tests.matrix.__main__ import WHEEL, head_of
from tests.matrix.combinations import (
    COMBINATIONS,
    NEWEST,
    OLDEST,
    SUITES,
    Suite,
    feature,
    whole_product,
    with_releases,
)
from tests.unit.test_packaging import PYTHONS, ROOT

AIRFLOWS = ("3.1", "3.2", "3.3")
SPARKS = tuple(f"{major}.{minor}" for major, minor in PAIRS)
NEWER_SPARKS = tuple(f"{major}.{minor}" for major, minor in WITHOUT_CLIENT)


def test_every_version_occurs() -> None:
    assert {feature(one.airflow) for one in COMBINATIONS} == set(AIRFLOWS)
    assert {feature(one.spark) for one in COMBINATIONS} == {*SPARKS, *NEWER_SPARKS}
    assert {one.python for one in COMBINATIONS} == set(PYTHONS)


def test_the_corners_occur() -> None:
    corners = set(product((AIRFLOWS[0], AIRFLOWS[-1]), (SPARKS[0], SPARKS[-1])))
    assert corners <= {(feature(one.airflow), feature(one.spark)) for one in COMBINATIONS}


def test_the_product_is_of_the_newest_releases_and_of_all_pythons() -> None:
    found = whole_product()
    assert len(set(found)) == len(found) == len(AIRFLOWS) * len(SPARKS + NEWER_SPARKS) * len(PYTHONS)
    assert NEWEST in found
    assert OLDEST.airflow not in {one.airflow for one in found}
    assert {one.published for one in found if one.airflow == NEWEST.airflow} == {NEWEST.published}


def test_the_oldest_is_the_oldest_that_the_package_requires() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert f'"apache-airflow>={feature(OLDEST.airflow)},' in text
    assert f'"pyspark>={feature(OLDEST.spark)},' in text
    assert OLDEST.python == PYTHONS[0]
    assert (OLDEST.airflow, OLDEST.spark) == (f"{AIRFLOWS[0]}.0", f"{SPARKS[0]}.0")


def test_the_newest_is_what_is_developed_with() -> None:
    pinned = dict(
        re.findall(r"^(apache-airflow|pyspark)==([\w.]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    )
    assert (NEWEST.airflow, NEWEST.spark) == (pinned["apache-airflow"], pinned["pyspark"])


def test_a_release_that_no_combination_has_is_tried_with_the_newest_of_the_others() -> None:
    tried = with_releases(spark="9.0.0")
    assert tried == replace(NEWEST, spark="9.0.0")
    assert with_releases(airflow=OLDEST.airflow).published == OLDEST.published
    assert with_releases(airflow="9.0.0").published > NEWEST.published


def test_the_page_has_the_table_that_is_printed() -> None:
    page = (ROOT / "docs/reference/compatibility.md").read_text()
    assert head_of([WHEEL, *(suite.name for suite in SUITES)]) in page


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_suites_name_files_that_are_there(suite: Suite) -> None:
    for argument in suite.arguments:
        if argument.startswith("tests/"):
            assert (ROOT / argument).exists(), argument


def test_a_test_is_left_out_of_one_version_only() -> None:
    unit = SUITES[0]
    assert "--deselect" in unit.command(OLDEST)
    assert "--deselect" not in unit.command(NEWEST)


def test_nightly_runs_the_matrix() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "$(MAKE) --no-print-directory matrix" in makefile.partition("\nnightly:")[2].partition("\n\n")[0]
    assert "-m tests.matrix" in makefile.partition("\nmatrix:")[2].partition("\n\n")[0]
