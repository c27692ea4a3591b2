"""Options of tables that are written: what they mean, and what is rejected by name."""

from __future__ import annotations

import pytest

from airflow_samza.errors import ConfigError, SamzaError
from airflow_samza.systems.iceberg.options import OutputOptions, identifier_of
from airflow_samza.systems.tables.options import OUTPUT_MODES
from tests.support.table_outputs import output_stream


def of(**options: str) -> OutputOptions:
    return OutputOptions.of(output_stream(**options))


def test_options_have_defaults() -> None:
    assert of() == OutputOptions("web.out")
    assert of(mode="") == OutputOptions("web.out")
    assert identifier_of(OutputOptions.of(output_stream("out")).table) == ("default", "out")
    assert identifier_of(OutputOptions.of(output_stream("a.b.out")).table) == ("a", "b", "out")


@pytest.mark.parametrize("mode", OUTPUT_MODES)
def test_modes(mode: str) -> None:
    assert of(mode=mode).mode == mode


@pytest.mark.parametrize("mode", ["overwrite", "Append", "replace  table", "replace_partitions"])
def test_other_modes_are_rejected(mode: str) -> None:
    with pytest.raises(SamzaError, match=mode) as error:
        of(mode=mode)
    assert "append" in str(error.value)


@pytest.mark.parametrize(("said", "wanted"), [("true", True), ("True", True), ("false", False), ("", False)])
def test_create_is_true_or_false(said: str, wanted: bool) -> None:
    assert of(create=said).create is wanted


def test_create_of_another_value_is_rejected() -> None:
    with pytest.raises(ConfigError, match="create='yes'"):
        of(create="yes")


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("country", [("country", "identity")]),
        (" country , name", [("country", "identity"), ("name", "identity")]),
        ("day(at)", [("at", "day")]),
        ("days(at), hours( at )", [("at", "day"), ("at", "hour")]),
        ("month(at),years(at)", [("at", "month"), ("at", "year")]),
        ("bucket(16, id), truncate(4,code)", [("id", "bucket[16]"), ("code", "truncate[4]")]),
        ("a b, ünï", [("a b", "identity"), ("ünï", "identity")]),
        ("identity(x), void(y)", [("x", "identity"), ("y", "void")]),
        (", ,", []),
    ],
)
def test_partition_fields_are_written_as_in_sql(said: str, wanted: list[tuple[str, str]]) -> None:
    assert list(of(create="true", partition_by=said).partition_by) == wanted


@pytest.mark.parametrize(
    "said",
    [
        "zorder(a)",
        "bucket(a)",
        "bucket(16)",
        "bucket(, a)",
        "day(1, at)",
        "day()",
        "bucket(16, a",
        "day(at))",
        "f(a(b))",
    ],
)
def test_what_is_no_partition_field_is_rejected(said: str) -> None:
    with pytest.raises(ConfigError, match="which is no partition field") as error:
        of(create="true", partition_by=said)
    assert "bucket(16, id)" in error.value.hint


@pytest.mark.parametrize("said", ["bucket(0, id)", "truncate(0, id)"])
def test_a_width_of_zero_is_rejected(said: str) -> None:
    with pytest.raises(ConfigError, match="which is no partition field"):
        of(create="true", partition_by=said)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("country", [("country", "identity", False, True)]),
        ("country, at desc", [("country", "identity", False, True), ("at", "identity", True, False)]),
        ("day(at) DESC nulls first, bucket(4, id)", [("at", "day", True, True), ("id", "bucket[4]", False, True)]),
        ("a b asc nulls last", [("a b", "identity", False, False)]),
    ],
)
def test_a_sort_order_is_written_as_in_sql(said: str, wanted: list[tuple[str, str, bool, bool]]) -> None:
    assert list(of(create="true", sort_by=said).sort_by) == wanted


@pytest.mark.parametrize("said", ["zorder(a)", "day(at)) desc", "bucket(a) asc"])
def test_what_is_no_field_of_a_sort_order_is_rejected(said: str) -> None:
    with pytest.raises(ConfigError, match="which is no field of a sort order") as error:
        of(create="true", sort_by=said)
    assert "at desc" in error.value.hint


def test_properties_are_options_with_a_dot() -> None:
    found = of(create="true", **{"write.parquet.compression-codec": "gzip", "owner.team": "x"})
    assert found.properties == {"write.parquet.compression-codec": "gzip", "owner.team": "x"}


@pytest.mark.parametrize("options", [{"partition_by": "a"}, {"sort_by": "a"}, {"write.x": "1"}])
def test_options_of_a_table_that_is_not_made_are_rejected(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=f"has the option {next(iter(options))}, and does not make its table"):
        of(**options)


@pytest.mark.parametrize(("name", "near"), [("tabel", "table"), ("partitionby", "partition_by"), ("snapshot", "")])
def test_unknown_options_are_rejected(name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"tables that are written have no option '{name}'") as error:
        of(**{name: "x"})
    assert near in error.value.hint


def test_records_cannot_be_given_as_properties() -> None:
    with pytest.raises(ConfigError, match=r"samza\.slot\.x"):
        of(create="true", **{"samza.slot.x": "{}"})
