"""The import paths of Dag files: each name has one on the pages, they load no more than before, and old names stay."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import airflow_samza
import airflow_samza.triggers
from airflow_samza.provider.triggers import class_path
from tests.unit.test_planning_is_light import modules_loaded_by, of_runners

ROOT = Path(__file__).parents[3]
MODULES = ("assets", "hooks", "notifications", "operators", "sensors", "triggers")
HOMES = {
    **dict.fromkeys(("SamzaDag", "SamzaTaskGroup"), "airflow_samza"),
    **{
        name: f"airflow_samza.{module}"
        for module in MODULES
        for name in importlib.import_module(f"airflow_samza.{module}").__all__
    },
}
FIRST_NAMES = ("TablePushOperator", "TableRollbackOperator", "TableFreshnessSensor")


@pytest.mark.parametrize("name", FIRST_NAMES)
def test_the_first_name_of_what_is_now_called_samza_table_means_the_same(name: str) -> None:
    module = importlib.import_module(HOMES[name])
    assert getattr(module, name) is getattr(module, f"Samza{name}")
    assert getattr(airflow_samza, name) is getattr(airflow_samza, f"Samza{name}")
    assert getattr(airflow_samza, name).__name__ == f"Samza{name}"


def test_a_name_of_the_package_that_a_module_has_too_is_the_same_thing() -> None:
    both = [name for name, home in HOMES.items() if home != "airflow_samza" and name in airflow_samza.__all__]
    assert {"SamzaHook", "SamzaStreamOperator", "SamzaTableFreshnessSensor"} <= set(both)
    for name in both:
        assert getattr(importlib.import_module(HOMES[name]), name) is getattr(airflow_samza, name)


def imports_on_pages() -> list[tuple[str, str, str]]:
    """Return (place, module, name) of each import from this package in pages and example Dags."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [
        (page.name, code)
        for page in pages
        for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    ]
    texts += [(file.name, file.read_text(encoding="utf-8")) for file in sorted((ROOT / "dags").glob("*.py"))]
    found = []
    for place, text in texts:
        for module, names in re.findall(
            r"^[ ]*from (airflow_samza[\w.]*) import (\([^)]*\)|[^(\n]*)", text, flags=re.MULTILINE
        ):
            found += [(place, module, name) for name in re.findall(r"\w+", names.partition("#")[0])]
    return found


def test_pages_and_examples_import_each_name_from_one_place() -> None:
    found = [(place, module, name) for place, module, name in imports_on_pages() if name in HOMES]
    assert {"SamzaTaskGroup", "SamzaStreamOperator", "SamzaTablePushOperator"} <= {name for _, _, name in found}
    assert [
        (place, module, name) for place, module, name in found if HOMES[name] != module or name in FIRST_NAMES
    ] == []


@pytest.mark.extended
def test_the_import_paths_load_neither_spark_nor_arrow_and_no_trigger_unasked(tmp_path: Path) -> None:
    loaded = modules_loaded_by(
        f"import {', '.join(f'airflow_samza.{name}' for name in MODULES if name != 'triggers')}", tmp_path
    )
    heavy = ("airflow_samza.spark", "airflow_samza.engine", "pyspark", "py4j", "pyarrow", "pandas", "sqlglot")
    assert not {name for name in loaded if name.startswith(heavy)}
    assert not {name for name in loaded if name.startswith("airflow_samza.provider.triggers.")}
    assert "airflow_samza.triggers" not in loaded


@pytest.mark.extended
def test_the_path_of_triggers_loads_nothing_of_runners_and_spark(tmp_path: Path) -> None:
    assert of_runners(modules_loaded_by("import airflow_samza.triggers", tmp_path)) == []


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("triggers", "SamzaStageTrigger"),
        ("triggers", "SamzaRunTrigger"),
        ("triggers", "SamzaStateTrigger"),
        ("triggers", "SamzaProducersTrigger"),
        ("table_triggers", "TablePushTrigger"),
        ("table_triggers", "TableFreshnessTrigger"),
        ("stream_triggers", "SamzaEndOfStreamTrigger"),
        ("kafka_triggers", "KafkaLagTrigger"),
        ("kafka_triggers", "KafkaMessagesTrigger"),
    ],
)
def test_a_trigger_that_0_1_has_deferred_a_task_with_is_loaded_by_its_former_path(module: str, name: str) -> None:
    public = importlib.import_module("airflow_samza.triggers")
    assert getattr(importlib.import_module(f"airflow_samza.provider.{module}"), name) is getattr(public, name)


@pytest.mark.parametrize("name", airflow_samza.triggers.__all__)
def test_a_deferred_task_names_its_trigger_by_the_path_that_stays(name: str) -> None:
    assert class_path(getattr(airflow_samza.triggers, name)) == f"airflow_samza.triggers.{name}"
