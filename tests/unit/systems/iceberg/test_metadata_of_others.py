"""Metadata that somebody else has written: it opens no file, and imports nothing, that the binding does not allow."""

from __future__ import annotations

import dataclasses
import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, write_manifest_list
from pyiceberg.table import StagedTable, Table

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.iceberg import bounds, catalogs
from airflow_samza.systems.iceberg.system import IcebergSystem
from airflow_samza.systems.system import SystemBinding
from tests.support import iceberg_catalog_server
from tests.support.iceberg_catalog_server import CatalogServer
from tests.support.iceberg_lake import (
    add_files,
    append,
    catalog_at,
    compact,
    data_file,
    delete_positions,
    rows_of,
    stream,
    system_at,
    table_of,
)
from tests.support.iceberg_outputs import Output, ids, output_stream

SCHEMA = pa.schema([("id", pa.int64())])
SECRET = "hunter2"
NAMES = '[{"field-id": 1, "names": ["id"]}]'
CHOOSING = {
    "write.py-location-provider.impl": "evil_io.Io",
    "py-io-impl": "evil_io.Io",
    "s3.endpoint": f"http://evil.example/{SECRET}",
    "s3.secret-access-key": SECRET,
}


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module on the path, which leaves a file when somebody imports it."""
    trace = tmp_path / "imported"
    (tmp_path / "evil_io.py").write_text(f"open({str(trace)!r}, 'w').close()\nclass Io:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    bounds._say.cache_clear()
    sys.modules.pop("evil_io", None)
    return trace


def edited(table: Table, old: str, new: str) -> None:
    """Edit the newest metadata as somebody does whose library checks nothing."""
    path = Path(table.metadata_location.removeprefix("file://"))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1).replace(",}", "}"))


def chosen_by_table(table: Table) -> None:
    said = ",".join(f'"{name}":"{value}"' for name, value in CHOOSING.items())
    edited(table, '"properties":{', f'"properties":{{{said},')


def stored_properties(table: Table) -> dict[str, str]:
    text = Path(table.metadata_location.removeprefix("file://")).read_text()
    return {name: value for name, value in CHOOSING.items() if f'"{name}":"{value}"' in text}


def planned(output: Output) -> None:
    system, read = output.system, stream("web.out")
    assert set(system.metadata([read])) == {"views"}
    fixed = system.slice(read)
    assert system.hold(read, "reader", fixed["snapshot"]) is None
    assert system.changes(read, fixed["snapshot"], "")["files"] == []


def read(output: Output) -> None:
    assert [row["id"] for row in rows_of(output.system, stream("web.out"))] == [1]


def written(output: Output) -> None:
    output.publish(ids([2]), epoch=1)
    output.publish(ids([3]), generation="1.2", epoch=0)
    assert [row["id"] for row in rows_of(output.system, stream("web.out"))] == [3]


def replaced_after_a_compaction(output: Output) -> None:
    append(output.table(), [{"id": 9, "run": "of others"}])
    compact(output.table())
    output.publish(ids([2]), generation="1.2")  # which writes the file anew, without the row of the run
    assert sorted(row["id"] for row in rows_of(output.system, stream("web.out"))) == [2, 9]


def followed(output: Output) -> None:
    system, spec = output.system, stream("web.out")
    known = system.arrived(spec, None)["known"]
    output.publish(ids([2]), epoch=1)
    for one in (spec, dataclasses.replace(spec, changes=True)):
        assert [row["id"] for row in rows_of(system, one, range_=system.arrived(one, known))] == [2]


def swept(output: Output) -> None:
    assert output.system.sweep_output(output.spec, lambda *_: False, 4e9) == (0, 0)
    assert len(output.system.whole_files(output.spec)[1]) == 1
    assert list(output.system.view(output.spec).commits())


@pytest.mark.parametrize("act", [planned, read, written, replaced_after_a_compaction, followed, swept])
def test_a_tables_properties_choose_neither_imports_nor_where_files_are(
    act: Callable[[Output], None], tmp_path: Path, imported: Path, caplog: pytest.LogCaptureFixture
) -> None:
    output = Output(tmp_path / "lake", output_stream(schema="id bigint", create="true", run_column="run"))
    output.system.create([output.spec])
    output.publish(ids([1]))
    chosen_by_table(Output.table(output))
    with caplog.at_level(logging.DEBUG):
        act(output)
    assert not imported.exists()
    assert "evil_io" not in sys.modules
    said = [record.getMessage() for record in caplog.records if "only a binding may have" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("The table web.out of the system 'lake' has properties")
    assert all(name in said[0] for name in CHOOSING)
    assert SECRET not in caplog.text
    with catalogs.opened_catalog(output.system.settings) as catalog:
        table = catalogs.find_table(catalog, "web.out")
        assert table is not None
        assert stored_properties(table) == CHOOSING  # they stay, and do nothing
        assert "s3.endpoint" not in table.io.properties


def test_a_rest_catalog_lends_credentials_and_a_tables_properties_do_not(
    tmp_path: Path, imported: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    described = iceberg_catalog_server._described
    lent: dict[str, str] = {"s3.access-key-id": "lent", "py-io-impl": "evil_io.Io"}

    def with_properties(table: Table) -> dict[str, Any]:
        answer = described(table)
        if not isinstance(table, StagedTable):
            answer["metadata"]["properties"] |= {**CHOOSING, "DEFAULT_SCHEME": "s3"}
        return {**answer, "config": lent}

    monkeypatch.setattr(iceberg_catalog_server, "_described", with_properties)
    with CatalogServer(tmp_path, token="t") as server, caplog.at_level(logging.DEBUG):
        output = Output(tmp_path, output_stream(schema="id bigint", create="true"), server=server)
        output.system.create([output.spec])
        output.publish(ids([1]))
        assert [row["id"] for row in rows_of(output.system, stream("web.out"))] == [1]
        with catalogs.opened_catalog(output.system.settings) as catalog:
            table = catalogs.find_table(catalog, "web.out")
            assert table is not None
            assert table.io.properties["s3.access-key-id"] == "lent"
            assert not {"s3.endpoint", "s3.secret-access-key", "DEFAULT_SCHEME"} & set(table.io.properties)
    assert not imported.exists()
    assert SECRET not in caplog.text


def test_a_class_of_the_binding_is_imported_and_no_secret_of_it_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    code = "from pyiceberg.io.pyarrow import PyArrowFileIO\nclass Own(PyArrowFileIO):\n    pass\n"
    (tmp_path / "own_io.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    table_of(tmp_path / "lake", SCHEMA, [{"id": 1}])
    options = {"root": str(tmp_path / "lake"), "py-io-impl": "own_io.Own", "s3.secret-access-key": SECRET}
    system = IcebergSystem("lake", SystemBinding("iceberg", options, secret=frozenset({"s3.secret-access-key"})))
    with caplog.at_level(logging.DEBUG):
        assert rows_of(system, stream()) == [{"id": 1}]
        with catalogs.opened_catalog(system.settings) as catalog:
            assert type(catalog.load_table("web.views").io).__name__ == "Own"
    assert SECRET not in caplog.text


def outside(table: Table, folder: Path) -> str:
    """Have a data file of a table in another folder; return its address."""
    file = data_file(table, pa.table({"id": [7]}), ids=False)
    folder.mkdir()
    moved = folder / "secret.parquet"
    shutil.move(file.file_path.removeprefix("file://"), moved)
    add_files(table, moved_to(file, f"file://{moved}"))
    return file.file_path


def outside_delete(table: Table, folder: Path) -> str:
    """Have a file of deletes in another folder."""
    return outside_deletes(table, folder, vectors=False)


def outside_vector(table: Table, folder: Path) -> str:
    """Have a deletion vector in another folder."""
    return outside_deletes(table, folder, vectors=True)


def outside_deletes(table: Table, folder: Path, *, vectors: bool) -> str:
    (task,) = table.scan().plan_files()
    link = Path(table.location().removeprefix("file://"), "data")
    there = {path.name for path in link.iterdir()}
    delete_positions(table, {task.file.file_path: [0]}, vectors=vectors)
    (name,) = {path.name for path in link.iterdir()} - there
    folder.mkdir()
    shutil.move(link / name, folder / name)
    (link / name).symlink_to(folder / name)  # as a metadata entry in the table's folder that leads out of it
    return f"{table.location()}/data/{name}"


def outside_manifest(table: Table, folder: Path) -> str:
    """Have the list of a snapshot name a manifest in another folder."""
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    (manifest,) = snapshot.manifests(table.io)
    folder.mkdir()
    moved = folder / "m0.avro"
    shutil.move(manifest.manifest_path.removeprefix("file://"), moved)
    manifest._data[0] = f"file://{moved}"
    location = f"{table.location()}/metadata/other.avro"
    with write_manifest_list(2, table.io.new_output(location), snapshot.snapshot_id, None, 1, "deflate") as lists:
        lists.add_manifests([manifest])
    edited(table, snapshot.manifest_list, location)
    return manifest.manifest_path


def outside_list(table: Table, folder: Path) -> str:
    """Have a snapshot name a list in another folder."""
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    folder.mkdir()
    shutil.copy(snapshot.manifest_list.removeprefix("file://"), folder / "list.avro")
    edited(table, snapshot.manifest_list, f"file://{folder}/list.avro")
    return f"file://{folder}/list.avro"


def moved_to(file: Any, path: str) -> DataFile:
    file._data[1] = path
    assert file.file_path == path
    found: DataFile = file
    return found


OUTSIDE = [outside, outside_delete, outside_vector, outside_manifest, outside_list]


@pytest.mark.parametrize("made", OUTSIDE)
def test_what_lies_outside_of_a_table_is_rejected_unless_the_binding_allows_its_place(
    made: Callable[[Table, Path], str], tmp_path: Path
) -> None:
    properties = {"schema.name-mapping.default": NAMES, "format-version": "2"}
    table = table_of(tmp_path / "lake", SCHEMA, [{"id": 1}], properties=properties)
    address = made(table, tmp_path / "private")
    system = system_at(tmp_path / "lake")
    acts: list[Callable[[], object]] = [lambda: system.slice(stream()), lambda: system.arrived(stream(), None)]
    for act in acts:
        with pytest.raises(TopicError, match=r"The table web\.views of the system 'lake' names the address") as error:
            act()
        assert repr(address) in error.value.sentence
        assert "locations=" in error.value.hint
    expected = {"outside": [1, 7], "outside_delete": [], "outside_vector": []}.get(made.__name__, [1])
    for allowed in (f"{tmp_path}/private", f"s3://lake/x, file://{tmp_path}/private/"):
        rows = rows_of(system_at(tmp_path / "lake", locations=allowed), stream())
        assert sorted(row["id"] for row in rows) == expected


@pytest.mark.parametrize("made", [outside, outside_list])
@pytest.mark.parametrize("changes", [False, True])
def test_a_followed_input_rejects_what_was_appended_from_outside(
    made: Callable[[Table, Path], str], changes: bool, tmp_path: Path
) -> None:
    table = table_of(tmp_path / "lake", SCHEMA, [{"id": 1}])
    spec = dataclasses.replace(stream(), changes=changes)
    known = system_at(tmp_path / "lake").arrived(spec, None)["known"]
    append(table, [{"id": 2}])
    made(table, tmp_path / "private")
    with pytest.raises(TopicError, match="names the address"):
        system_at(tmp_path / "lake").arrived(spec, known)


@pytest.mark.parametrize(
    "address",
    ["http://169.254.169.254/x", "ftp://host/a.parquet", "file:///etc/passwd", "{table}/data/../../../x.parquet"],
)
def test_addresses_that_are_of_no_lake_or_lead_out_are_rejected(address: str, tmp_path: Path) -> None:
    table = table_of(tmp_path, SCHEMA, [{"id": 1}])
    file = data_file(table, pa.table({"id": [7]}), ids=False)
    add_files(table, moved_to(file, address.format(table=table.location())))
    with pytest.raises(TopicError, match="names the address"):
        system_at(tmp_path).slice(stream())


def test_a_location_counts_only_where_the_catalog_has_the_tables_metadata(tmp_path: Path) -> None:
    table = table_of(tmp_path / "lake", SCHEMA, [{"id": 1}])
    edited(table, f'"location":"{table.location()}"', '"location":"file:///"')
    with pytest.raises(TopicError, match="names the address"):
        system_at(tmp_path / "lake").slice(stream())
    system = system_at(tmp_path / "lake", locations=str(tmp_path / "lake"))
    assert rows_of(system, stream()) == [{"id": 1}]
    with catalog_at(tmp_path / "lake") as catalog:
        assert catalog.load_table("web.views").location() == "file:///"


@pytest.mark.parametrize("name", ["write.data.path", "write.metadata.path"])
def test_a_place_that_a_property_names_is_written_and_swept_only_where_the_binding_allows_it(
    name: str, tmp_path: Path
) -> None:
    lake, precious = tmp_path / "lake", tmp_path / "private" / "stage-1.1-0-0.parquet"
    precious.parent.mkdir()
    precious.write_bytes(b"")
    output = Output(lake)
    table = table_of(lake, SCHEMA, [{"id": 1}], name="web.out")
    staged = output.publication(ids([2]))
    edited(table, '"properties":{', f'"properties":{{"{name}":"file://{tmp_path}/private",')
    rejected = "names the address 'file://.*/private.*', which is not in its folder"
    with pytest.raises(TopicError, match=rejected):
        output.system.target(output.spec, "run")
    if name == "write.data.path":
        with pytest.raises(TopicError, match=rejected):
            output.system.sweep_output(output.spec, lambda *_: False, 4e9)
    else:
        with pytest.raises(TopicError, match=rejected):
            output.system.publish(output.spec, staged)
    assert [path.name for path in precious.parent.iterdir()] == [precious.name]
    assert rows_of(output.system, stream("web.out")) == [{"id": 1}]
    allowed = system_at(lake, locations=f"file://{tmp_path}/private,{lake}")
    assert allowed.target(output.spec, "run") is not None
    allowed.publish(output.spec, staged)
    assert sorted(row["id"] for row in rows_of(allowed, stream("web.out"))) == [1, 2]


def test_old_metadata_is_deleted_only_in_the_table(tmp_path: Path) -> None:
    precious = tmp_path / "precious.json"
    precious.write_text("{}")
    trimmed = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    table = table_of(tmp_path / "lake", SCHEMA, [{"id": 1}], name="web.out", properties=trimmed)
    former = table.metadata.metadata_log[-1].metadata_file
    edited(table, former, f"file://{precious}")
    output = Output(tmp_path / "lake")
    output.publish(ids([2]))
    assert precious.exists()
    assert output.ids() == [1, 2]


@pytest.mark.parametrize("place", ["archive", "http://host/x", "s3://lake/a/../b", "s3://lake/a\tb"])
def test_a_location_of_the_binding_is_a_folder_of_a_lake(place: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="which is no folder of a lake"):
        system_at(tmp_path, locations=place)
