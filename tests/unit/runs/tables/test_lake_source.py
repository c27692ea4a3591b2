"""Tables of lakes as the sources of pushes: what is fixed of them, and how they are named."""

from __future__ import annotations

import pytest

from airflow_samza.errors import PushError, SchemaError, SourceUnavailable, StorageUnavailable
from airflow_samza.runs.tables.lake_source import LakeSource
from airflow_samza.systems.system import StreamSpec

ICEBERG = LakeSource("iceberg", "shop.members", "lake", "17", "")
DELTA = LakeSource("delta", "members", "store", "4", "3")
EMPTY = LakeSource("delta", "members", "store")


@pytest.mark.parametrize("source", [ICEBERG, DELTA, EMPTY])
def test_a_source_is_read_back_from_its_plain_form(source: LakeSource) -> None:
    assert LakeSource.of(source.plain()) == source


def test_version_nought_is_one_and_an_empty_text_is_none() -> None:
    found = [LakeSource.of({"delta": "t", "system": "s", "version": version}) for version in (0, "", None)]
    assert [source.version for source in found if source is not None] == ["0", None, None]


def test_another_kind_of_source_is_no_table_of_a_lake() -> None:
    assert LakeSource.of({"path": "/in"}) is None


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            ICEBERG,
            "changes since snapshot without rows, up to snapshot 17 of iceberg table shop.members of system 'lake'",
        ),
        (DELTA, "changes since version 3, up to version 4 of delta table members of system 'store'"),
        (EMPTY, "delta table members of system 'store'"),
    ],
)
def test_a_source_says_what_is_read_of_which_table(source: LakeSource, said: str) -> None:
    assert str(source) == said


def test_the_stream_of_a_source_is_its_table_at_its_version() -> None:
    assert ICEBERG.stream(3) == StreamSpec("source", 3, options=(("table", "shop.members"), ("snapshot", "17")))
    assert EMPTY.stream(1) == StreamSpec("source", 1, options=(("table", "members"),))


def test_a_table_that_has_got_rows_since_it_was_fixed_is_read_by_another_attempt() -> None:
    DELTA.check_read({"version": 4}, "profiles")
    EMPTY.check_read({"version": None}, "profiles")
    with pytest.raises(SourceUnavailable, match=r"had no version when .* and has version 0 now") as raised:
        EMPTY.check_read({"version": 0}, "profiles")
    assert raised.value.retryable


def test_an_error_of_the_system_is_one_of_the_push_and_is_retried_where_that_may_help() -> None:
    with pytest.raises(SourceUnavailable, match="cannot be read now: It is away"), DELTA.failures("profiles"):
        raise StorageUnavailable("It is away.")
    with pytest.raises(PushError, match="cannot be read: It is odd") as raised, DELTA.failures("profiles"):
        raise SchemaError("It is odd.", hint="Clear the plan task, so that a new plan reads what is there.")
    assert not isinstance(raised.value, SourceUnavailable)
    assert raised.value.hint == "Push again, and read what is there."
    mine = PushError("It is mine.")
    with pytest.raises(PushError) as raised, DELTA.failures("profiles"):
        raise mine
    assert raised.value is mine
