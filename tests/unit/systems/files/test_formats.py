"""One list names the formats of files, and the suites take theirs from it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.errors import SchemaError
from airflow_samza.systems.files import formats
from airflow_samza.systems.files.formats.csv import CsvFormat
from airflow_samza.systems.files.formats.file_format import FileFormat, open_format
from airflow_samza.systems.files.formats.options import FORMATS, FileOptions, format_name, format_of_path
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.operator_kinds import subclasses

TESTS = Path(__file__).parents[3]
SUITES = (
    "fuzz/test_file_readers.py",
    "property/test_files_round_trip.py",
    "unit/engine/test_large_values.py",
    "unit/systems/files/test_limits.py",
    "unit/systems/files/test_object_stores.py",
    "unit/systems/test_delivery.py",
)
"""Modules of tests that have a case of each format."""


def test_every_format_is_in_the_list() -> None:
    for module in pkgutil.iter_modules(formats.__path__):
        importlib.import_module(f"{formats.__name__}.{module.name}")
    ours = {kind for kind in subclasses(FileFormat) if kind.__module__.startswith(f"{formats.__name__}.")}
    assert ours == {type(open_format(name)) for name in FORMATS}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_found_by_its_names_and_the_extension_of_what_it_writes(name: str) -> None:
    assert format_of_path(f"a.{name}") == name
    assert {format_name(other, of="It") for other in (name, *FORMATS[name].others)} == {name}


def test_no_suite_has_a_list_of_formats_of_its_own() -> None:
    own = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in sorted(TESTS.rglob("test_*.py"))
        if all(f'"{name}"' in path.read_text() for name in FORMATS)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.List | ast.Tuple | ast.Set)
        and {each.value for each in node.elts if isinstance(each, ast.Constant)} == set(FORMATS)
    ]
    assert not own, f"they name all formats themselves, and take them from FORMATS instead: {own}"


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_takes_its_formats_from_the_list(suite: str) -> None:
    tree = ast.parse((TESTS / suite).read_text())
    assert any(isinstance(node, ast.Name) and node.id == "FORMATS" for node in ast.walk(tree))


def test_a_format_sees_the_options_when_the_plan_checks_an_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(self: CsvFormat, schema: pa.Schema, stream: str, options: FileOptions) -> None:
        if options.delimiter == ";" and "a;b" in schema.names:
            raise SchemaError(f"Stream {stream!r} does not fit.", hint="Rename it.")

    monkeypatch.setattr(CsvFormat, "check", check)
    system = FilesSystem("lake", SystemBinding("files", {"root": str(tmp_path)}))
    stream = StreamSpec("out", 1, "`a;b` bigint", format="csv", options=(("delimiter", ";"),), written=True)
    with pytest.raises(SchemaError, match="Stream 'out' does not fit"):
        system.check_writable(stream)
    assert not list(tmp_path.iterdir())
