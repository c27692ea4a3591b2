from __future__ import annotations

import importlib
import json
from importlib.metadata import distribution, entry_points
from importlib.resources import files
from pkgutil import iter_modules
from typing import Any

import jsonschema
from airflow.sdk import BaseOperator, BaseSensorOperator
from airflow.triggers.base import BaseTrigger

from airflow_samza import provider
from airflow_samza.provider.get_provider_info import get_provider_info
from airflow_samza.provider.hooks import SamzaHook


def schema(name: str) -> Any:
    return json.loads((files("airflow") / name).read_text())


def test_the_provider_info_follows_airflows_schema() -> None:
    jsonschema.validate(get_provider_info(), schema("provider_info.schema.json"))


def test_the_form_of_the_connection_follows_airflows_schema() -> None:
    behaviour = get_provider_info()["connection-types"][0]["ui-field-behaviour"]
    form = {name.replace("-", "_"): value for name, value in behaviour.items()}
    jsonschema.validate(form, schema("customized_form_field_behaviours.schema.json"))


def test_the_package_name_is_that_of_the_distribution_which_announces_the_provider() -> None:
    # Airflow refuses a provider whose package-name differs from its distribution's.
    assert get_provider_info()["package-name"] == distribution("airflow-samza").metadata["Name"]
    announced = [
        entry
        for entry in entry_points(group="apache_airflow_provider")
        if entry.dist and entry.dist.name == "airflow-samza"
    ]
    assert [entry.load() for entry in announced] == [get_provider_info]


def test_every_module_and_class_that_it_names_exists() -> None:
    info = get_provider_info()
    modules = [
        module
        for kind in ("operators", "hooks", "triggers")
        for item in info[kind]
        for module in item["python-modules"]
    ]
    for module in modules:
        importlib.import_module(module)
    module, _, name = info["connection-types"][0]["hook-class-name"].rpartition(".")
    assert getattr(importlib.import_module(module), name) is SamzaHook
    assert SamzaHook.conn_type == info["connection-types"][0]["connection-type"]
    assert SamzaHook.hook_name == info["connection-types"][0]["hook-name"]


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
        "keep_runs": "100",
        "keep_runs_days": 30.0,
    }


def test_every_operator_sensor_and_trigger_is_in_a_module_that_it_names() -> None:
    info = get_provider_info()
    kinds = {BaseSensorOperator: "sensors", BaseTrigger: "triggers", BaseOperator: "operators"}
    modules = [
        importlib.import_module(f"{provider.__name__}.{found.name}") for found in iter_modules(provider.__path__)
    ]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and issubclass(value, tuple(kinds))
    }
    extended = {base for found in classes for base in found.__mro__[1:]}
    assert classes - extended
    for found in classes - extended:
        kind = next(name for base, name in kinds.items() if issubclass(found, base))
        listed = [importlib.import_module(name) for item in info[kind] for name in item["python-modules"]]
        assert any(getattr(module, found.__name__, None) is found for module in listed), found
