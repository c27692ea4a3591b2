"""Tables on the pages of Iceberg and Delta say what is supported: each row is tried."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema as TableSchema
from pyiceberg.types import LongType, NestedField

from airflow_samza.errors import SamzaError
from airflow_samza.schema import Schema
from airflow_samza.systems.iceberg.system import IcebergSystem
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.columns import columns_of, fields_of
from tests.support import delta_lake, iceberg_lake

PAGES = Path(__file__).parents[3] / "docs" / "how-to"


def rows_under(page: str, heading: str) -> dict[str, str]:
    """Return the rows of the table on a page whose first heading this is: the second cell by the first."""
    lines = (PAGES / page).read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows: dict[str, str] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        first, second = (cell.strip() for cell in line.strip("|").split(" | ", 1))
        rows[first.strip()] = second.strip().rstrip("|").strip()
    return rows


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def types_on(page: str, heading: str) -> Iterator[tuple[str, str | None]]:
    """Yield each type of a table of types, and its column type here; None: it is rejected."""
    for types, here in rows_under(page, heading).items():
        for place, word in enumerate(words(types)):
            same = words(here)
            yield (
                word,
                None
                if here.startswith("rejected")
                else word
                if here == "the same"
                else same[min(place, len(same) - 1)],
            )


NESTED = {"struct": "struct<a:bigint>", "list": "array<bigint>", "array": "array<bigint>", "map": "map<string,bigint>"}
EXAMPLES = {"decimal(p, s)": "decimal(9, 2)", "decimal(p,s)": "decimal(9,2)", "fixed[n]": "fixed[4]"}


def expected(here: str, word: str) -> str:
    return NESTED.get(word, here.replace("(p,s)", "(9,2)"))


def iceberg_type(word: str) -> Any:
    nested = {
        "list": {"type": "list", "element-id": 9, "element": "long", "element-required": False},
        "map": {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value": "long", "value-required": False},
        "struct": {"type": "struct", "fields": [{"id": 9, "name": "a", "type": "long", "required": False}]},
    }
    return nested.get(word, EXAMPLES.get(word, word))


def delta_type(word: str) -> Any:
    nested = {
        "array": {"type": "array", "elementType": "long", "containsNull": True},
        "map": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
        "struct": {"type": "struct", "fields": [delta_lake.column("a", "long")]},
    }
    return nested.get(word, EXAMPLES.get(word, word))


@pytest.mark.parametrize(("word", "here"), list(types_on("iceberg.md", "Iceberg")))
def test_a_type_of_iceberg_is_as_its_page_says(word: str, here: str | None, tmp_path: Path) -> None:
    described = {"id": 2, "name": "x", "required": False, "type": iceberg_type(word)}
    if here is None:
        with pytest.raises(SamzaError, match=word):
            fields_of(columns_of([described]), "web.views")
        return
    schema = TableSchema(NestedField(1, "id", LongType()), NestedField.model_validate(described))
    iceberg_lake.table_of(tmp_path, schema)
    found = iceberg_lake.system_at(tmp_path).metadata([iceberg_lake.stream()])["views"].schema
    assert Schema.of(str(found))["x"].type.ddl() == expected(here, word)


@pytest.mark.parametrize(("word", "here"), list(types_on("delta.md", "Delta")))
def test_a_type_of_delta_is_as_its_page_says(word: str, here: str | None, tmp_path: Path) -> None:
    table = delta_lake.HandMade(tmp_path, [delta_lake.column("x", delta_type(word))])
    table.begin()
    system, stream = delta_lake.system_at(tmp_path), delta_lake.stream()
    if here is None:
        with pytest.raises(SamzaError, match=word):
            system.metadata([stream])
        return
    assert Schema.of(str(system.metadata([stream])["views"].schema))["x"].type.ddl() == expected(here, word)


def features_on(heading: str) -> list[tuple[str, bool]]:
    """Return the features of a table of features, and whether they are supported."""
    rows = rows_under("delta.md", heading)
    return [(word, "reject" not in what) for features, what in rows.items() for word in words(features)]


@pytest.mark.parametrize(("feature", "is_read"), features_on("feature of the table"))
def test_a_feature_of_delta_is_read_or_rejected_by_its_name(feature: str, is_read: bool, tmp_path: Path) -> None:
    delta_lake.HandMade(tmp_path, [delta_lake.column("x", "long")], reader=3, features=[feature]).begin()
    system, stream = delta_lake.system_at(tmp_path), delta_lake.stream()
    if is_read:
        assert system.metadata([stream])["views"].schema == "x bigint"
        return
    with pytest.raises(SamzaError, match=feature):
        system.metadata([stream])


@pytest.mark.parametrize(("feature", "is_written"), features_on("a table that is written"))
def test_a_feature_of_delta_is_written_or_rejected_by_its_name(feature: str, is_written: bool, tmp_path: Path) -> None:
    if feature.startswith("mode="):
        return
    configuration = {"delta.appendOnly": "true"} if feature == "appendOnly" else {}
    columns = [delta_lake.column("x", "long")]
    table = delta_lake.HandMade(tmp_path, columns, reader=3, features=[feature], configuration=configuration)
    if (feature, True) not in features_on("feature of the table"):  # it is one of writers only
        table.protocol["readerFeatures"] = []
    table.begin()
    system = delta_lake.system_at(tmp_path)
    stream = StreamSpec("out", options=(("table", "web.views"),), written=True)
    if is_written:
        mode = (("mode", "append"),) if feature == "appendOnly" else ()
        assert system.fix_output(
            StreamSpec("out", options=(*stream.options, *mode), written=True), Schema.of("x bigint")
        )
        return
    with pytest.raises(SamzaError, match=feature):
        system.fix_output(stream, Schema.of("x bigint"))


def transforms() -> list[str]:
    cell = next(
        cell for name, cell in rows_under("iceberg.md", "option of the output").items() if "partition_by" in name
    )
    return ["country", *words(cell)]


@pytest.mark.parametrize("transform", transforms())
def test_a_transform_of_iceberg_is_made_as_its_page_says(transform: str, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    text = transform if "(" in transform or transform == "country" else f"{transform}(at)"
    stream = StreamSpec(
        "out",
        schema="id bigint, code string, country string, at timestamp",
        options=(("table", "web.views"), ("create", "true"), ("partition_by", text)),
        written=True,
    )
    system: IcebergSystem = iceberg_lake.system_at(tmp_path)
    system.create([stream])
    with iceberg_lake.catalog_at(tmp_path) as catalog:
        (field,) = catalog.load_table("web.views").spec().fields
    assert str(field.transform).split("[")[0] == (text.split("(")[0] if "(" in text else "identity")
    assert system.fix_output(stream, Schema.of(str(stream.schema)))
