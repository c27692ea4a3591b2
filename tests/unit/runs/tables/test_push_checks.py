"""Types whose values all are values of another type, and sums over the tasks of a push."""

from __future__ import annotations

import pytest

from airflow_samza.errors import SourceUnavailable
from airflow_samza.runs.tables.lake_source import LakeSource
from airflow_samza.runs.tables.push_checks import fits, totals_of
from airflow_samza.runs.tables.push_request import PushManifest, PushRequest
from airflow_samza.schema import parse_type

REQUEST = PushRequest("app", "m:app", "profiles", "monday", "log", "profiles-push", 2, ("id",), {"path": "in"})

FIT = [
    ("int", "int"),
    ("tinyint", "bigint"),
    ("int", "double"),
    ("bigint", "decimal(38,0)"),
    ("decimal(5,2)", "decimal(5,2)"),
    ("decimal(5,2)", "decimal(7,3)"),
    ("float", "double"),
    ("timestamp", "timestamp_ntz"),
    ("timestamp_ntz", "timestamp"),
    ("array<int>", "array<bigint>"),
    ("map<string,int>", "map<string,bigint>"),
    ("struct<a:int,b:float>", "struct<a:bigint,b:double>"),
]

MISFIT = [
    ("bigint", "int"),
    ("int", "string"),
    ("string", "int"),
    ("double", "float"),
    ("double", "bigint"),
    ("boolean", "int"),
    ("decimal(5,2)", "decimal(5,3)"),
    ("decimal(5,2)", "decimal(5,1)"),
    ("decimal(5,2)", "decimal(4,2)"),
    ("date", "timestamp"),
    ("array<bigint>", "array<int>"),
    ("struct<a:int,b:double>", "struct<a:int,b:float>"),  # one of two is enough
    ("struct<a:bigint,b:float>", "struct<a:int,b:float>"),
    ("struct<a:int>", "struct<b:int>"),
    ("struct<a:int>", "struct<a:int,b:int>"),
    ("map<bigint,string>", "map<int,string>"),
    ("array<int>", "int"),
]


@pytest.mark.parametrize(("actual", "declared"), FIT)
def test_a_type_fits_whose_values_all_are_values_of_the_other(actual: str, declared: str) -> None:
    assert fits(parse_type(actual), parse_type(declared))


@pytest.mark.parametrize(("actual", "declared"), MISFIT)
def test_a_type_does_not_fit_that_has_other_values(actual: str, declared: str) -> None:
    assert not fits(parse_type(actual), parse_type(declared))


@pytest.mark.parametrize(
    ("actual", "declared", "fit"),
    [
        ("string", "date", True),
        ("bigint", "string", True),
        ("bigint", "int", True),
        ("double", "float", True),
        ("double", "decimal(5,2)", True),
        ("double", "bigint", False),
        ("array<bigint>", "array<int>", True),
        ("struct<a:string,b:double>", "struct<a:int,b:bigint>", False),
        ("date", "timestamp", False),
    ],
)
def test_in_formats_without_types_texts_and_numbers_may_become_others(actual: str, declared: str, fit: bool) -> None:
    assert fits(parse_type(actual), parse_type(declared), loose=True) is fit


def test_the_counts_of_tasks_add_up_and_three_examples_are_kept() -> None:
    tasks = []
    for task in range(2):
        counts = {"rows": 5, "deletes": 1, "bytes": 70, "null_keys": 2, "duplicates": 3}
        examples, nulls = ([task, 0], [task, 1]), {"tier": 1, f"only-{task}": 4}
        tasks.append(PushManifest(**counts, examples=examples, nulls=nulls))  # type: ignore[arg-type]
    totals = totals_of(REQUEST, tasks)
    assert (totals.rows, totals.deletes, totals.bytes, totals.null_keys, totals.duplicates) == (10, 2, 140, 4, 6)
    assert totals.examples == ([0, 0], [0, 1], [1, 0])
    assert totals.nulls == {"tier": 2, "only-0": 4, "only-1": 4}


def test_a_table_without_a_snapshot_at_the_submission_that_has_one_when_it_is_read_is_left_to_the_next_attempt() -> (
    None
):
    source = LakeSource("iceberg", "ml.profiles", "lake")
    source.check_read({"snapshot": None}, "profiles")
    LakeSource("iceberg", "ml.profiles", "lake", "7").check_read({"snapshot": "7"}, "profiles")
    with pytest.raises(SourceUnavailable, match="had no snapshot when the push was submitted, and has snapshot 7 now"):
        source.check_read({"snapshot": 7}, "profiles")
