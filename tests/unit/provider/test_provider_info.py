from __future__ import annotations

import importlib
import json
from importlib.metadata import distribution, entry_points
from importlib.resources import files
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from airflow.sdk import BaseHook, BaseNotifier, BaseOperator, BaseOperatorLink, BaseSensorOperator
from airflow.triggers.base import BaseTrigger

from airflow_samza import provider
from airflow_samza.provider.get_provider_info import _types_of_others, get_provider_info
from airflow_samza.provider.hooks.samza import SamzaHook

KINDS: dict[type, str] = {
    BaseSensorOperator: "sensors",
    BaseTrigger: "triggers",
    BaseHook: "hooks",
    BaseOperator: "operators",
}


def schema(name: str) -> Any:
    return json.loads((files("airflow") / name).read_text())


def test_the_provider_info_follows_airflows_schema() -> None:
    jsonschema.validate(get_provider_info(), schema("provider_info.schema.json"))


def test_the_form_of_the_connection_follows_airflows_schema() -> None:
    behaviour = get_provider_info()["connection-types"][0]["ui-field-behaviour"]
    form = {name.replace("-", "_"): value for name, value in behaviour.items()}
    jsonschema.validate(form, schema("customized_form_field_behaviours.schema.json"))


def test_the_package_name_is_that_of_the_distribution_which_announces_the_provider() -> None:
    # Airflow rejects a provider whose package-name differs from its distribution's.
    assert get_provider_info()["package-name"] == distribution("airflow-samza").metadata["Name"]
    announced = [
        entry
        for entry in entry_points(group="apache_airflow_provider")
        if entry.dist and entry.dist.name == "airflow-samza"
    ]
    assert [entry.load() for entry in announced] == [get_provider_info]


def named(kind: str) -> list[ModuleType]:
    """Return the modules that the provider info names for a kind of classes."""
    return [importlib.import_module(name) for item in get_provider_info()[kind] for name in item["python-modules"]]


def test_every_module_and_class_that_it_names_exists() -> None:
    info = get_provider_info()
    for kind in KINDS.values():
        assert named(kind)
    for item in info["task-decorators"]:
        module, _, name = item["class-name"].rpartition(".")
        assert callable(getattr(importlib.import_module(module), name))
    module, _, name = info["connection-types"][0]["hook-class-name"].rpartition(".")
    assert getattr(importlib.import_module(module), name) is SamzaHook
    assert SamzaHook.conn_type == info["connection-types"][0]["connection-type"]
    assert SamzaHook.hook_name == info["connection-types"][0]["hook-name"]


def test_it_has_no_key_that_airflow_does_not_know() -> None:
    assert get_provider_info().keys() <= schema("provider_info.schema.json")["properties"].keys()


def test_every_setting_that_the_code_reads_is_declared_with_the_same_default() -> None:
    options = get_provider_info()["config"]["samza"]["options"]
    assert {
        name: float(option["default"]) if option["type"] == "float" else option["default"]
        for name, option in options.items()
    } == {
        "poll_interval": 1.0,
        "progress_interval": 30.0,
        "keep_topics_after_success": 24.0,
        "keep_topics_after_failure": 168.0,
        "driver_start_timeout": 600.0,
        "class_archives": "",
        "warm_runners": "2",
        "keep_runs": "100",
        "fuse_below": "67108864",
        "keep_runs_days": 30.0,
        "page_samples": "True",
        "page_masked_columns": "",
    }


def classes_of_the_provider() -> set[type]:
    modules = [
        importlib.import_module(found.name) for found in walk_packages(provider.__path__, f"{provider.__name__}.")
    ]
    return {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and not value.__name__.startswith("_")
    }


BASES = {
    "SamzaOperator",
    "PlanningOperator",
    "TableOperator",
    "DeferrableSensor",
    "ClientTrigger",
    "EndOfRunOperator",
    "RunTrigger",
    "PlannedRunTrigger",
    "SettlingTrigger",
    "RootHook",
    "RuntimeHook",
    "SamzaLink",
    "SystemHook",
    *(item["hook-class-name"].rpartition(".")[2] for item in get_provider_info()["connection-types"][1:]),
}
"""Classes that no Dag file uses: others extend them, or Airflow knows a type of connections by them."""


def test_every_operator_sensor_hook_and_trigger_is_in_a_module_that_it_names() -> None:
    seen = set()
    for found in classes_of_the_provider():
        kind = next((name for base, name in KINDS.items() if issubclass(found, base)), None)
        if kind is None or found.__name__ in BASES:
            continue
        seen.add(kind)
        assert any(getattr(module, found.__name__, None) is found for module in named(kind)), found
    assert seen == set(KINDS.values())


def test_every_link_notifier_and_plugin_is_named() -> None:
    info = get_provider_info()
    classes = classes_of_the_provider()

    def names(base: type) -> set[str]:
        return {
            f"{found.__module__}.{found.__name__}"
            for found in classes
            if issubclass(found, base) and found.__name__ not in BASES
        }

    assert names(BaseOperatorLink) == set(info.get("extra-links", ()))
    assert names(BaseNotifier) == set(info.get("notifications", ()))
    # A plugin has an entry point of its own: those of provider infos are loaded late, or not at all.
    assert "plugins" not in info


def test_every_kind_of_connection_that_a_hook_has_is_named() -> None:
    named_by_hooks = {
        (vars(found)["conn_type"], f"{found.__module__}.{found.__name__}")
        for found in classes_of_the_provider()
        if issubclass(found, BaseHook) and "conn_type" in vars(found)
    }
    assert named_by_hooks == {
        (item["connection-type"], item["hook-class-name"]) for item in get_provider_info()["connection-types"]
    }


class Other:
    """Plays the entry point of another provider."""

    value = "another.provider:info"

    def load(self) -> Any:
        return lambda: {"connection-types": [{"connection-type": "kafka", "hook-class-name": "another.Hook"}]}


class Broken(Other):
    """Plays one whose package cannot be imported."""

    def load(self) -> Any:
        raise ImportError("No module named 'gone'")


def test_a_type_that_another_provider_brings_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {item["connection-type"] for item in get_provider_info()["connection-types"]} >= {"delta", "kafka"}
    _types_of_others.cache_clear()
    monkeypatch.setattr("airflow_samza.provider.get_provider_info.entry_points", lambda group: [Broken(), Other()])
    try:
        types = [item["connection-type"] for item in get_provider_info()["connection-types"]]
    finally:
        _types_of_others.cache_clear()
    assert types == ["samza", "delta", "iceberg", "jdbc"]
