"""Functions of a Dag file as tasks: applications and sources of pushes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import task

from airflow_samza.application.loader import load_application
from airflow_samza.errors import SamzaError
from airflow_samza.provider.decorators import (
    _SamzaPushDecoratedOperator,
    _SamzaStreamDecoratedOperator,
    samza_push_task,
    samza_stream_task,
)
from airflow_samza.testing import TestDriver
from tests.support.airflow_names import DagBag

DAG = """
from datetime import datetime

from airflow.sdk import DAG, task
{above}

with DAG("views", schedule=None):

    {decorator}
    def views_per_country({parameters}):
        {body}

    {call}
"""
BODY = """from dataclasses import dataclass

        from airflow_samza import count

        @dataclass(frozen=True)
        class View:
            member: int
            country: str

        views = app.input_stream("page-views", system="logs", schema=View, partitions=2)
        counted = views.filter(lambda view: view.member > 1).partition_by("country", id="by-country")
        counted.aggregate("country", views=count(), id="n").send_to(app.output_stream("out", system="warehouse"))"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in sys.modules if name.startswith("samza_task_")]:
        monkeypatch.delitem(sys.modules, name)


def parsed(folder: Path, **given: str) -> Any:
    """Return the only task of the Dag file, as Airflow reads it, or raise its error."""
    texts = {
        "above": "",
        "decorator": "@task.samza_stream(systems={'logs': 'l', 'warehouse': 'w'}, retries=2)",
        "parameters": "app",
        "body": BODY,
        "call": "views_per_country()",
    }
    file = folder / "views_dag.py"
    file.write_text(DAG.format(**{**texts, **given}))
    bag = DagBag(dag_folder=str(file))
    if bag.import_errors:
        raise AssertionError(next(iter(bag.import_errors.values())))
    (found,) = bag.dags["views"].tasks
    return found


def test_airflow_finds_both_decorators_by_the_provider_info() -> None:
    found: Any = task
    assert (found.samza_stream, found.samza_push) == (samza_stream_task, samza_push_task)


def test_a_function_of_a_dag_file_is_run_as_the_application_that_it_describes(
    tmp_path: Path, runtime: Any, make_context: Any
) -> None:
    operator = parsed(tmp_path, body=BODY)
    assert isinstance(operator, _SamzaStreamDecoratedOperator)
    assert (operator.task_id, operator.retries) == ("views_per_country", 2)
    operator.poll_interval, operator.deferrable = 0.001, False
    result = operator.execute(make_context(operator))
    assert result["stages"] == ["page-views", "by-country"]
    (request,) = [call[1] for call in runtime.named("prepare")]
    module = importlib.import_module(request.application.partition(":")[0])
    assert module.__file__ is not None
    assert [Path(path) for path in operator.py_modules] == [Path(module.__file__)]
    assert "airflow" not in Path(module.__file__).read_text().replace("airflow_samza", "")
    spec = load_application(request.application).spec({})
    schema = spec.inputs["page-views"].schema
    assert schema is not None
    assert (spec.name, [field.name for field in schema.fields]) == ("views-per-country", ["member", "country"])


def test_the_module_of_a_function_computes_what_the_function_describes(tmp_path: Path) -> None:
    operator = parsed(tmp_path)
    operator.module.bring()
    application = load_application(operator.application)
    schema = application.spec({}).inputs["page-views"].schema
    assert schema is not None
    view: Any = schema.python_class
    driver = TestDriver(application)
    driver.pipe("page-views", [view(1, "NL"), view(2, "NL"), view(3, "NL"), view(4, "SE")])
    assert {row.country: row.views for row in driver.run().output("out")} == {"NL": 2, "SE": 1}


def test_a_task_that_is_back_from_the_triggerer_on_another_worker_has_the_module_there(tmp_path: Path) -> None:
    operator = parsed(tmp_path)
    file = operator.module.bring()[0]
    file.unlink()
    operator._bring()
    assert file.read_text() == operator.module.source


def test_an_annotation_of_the_parameter_may_be_a_name_of_the_dag_file(tmp_path: Path) -> None:
    above = "from airflow_samza import StreamApplicationDescriptor"
    operator = parsed(tmp_path, above=above, parameters="app: StreamApplicationDescriptor")
    operator.module.bring()
    assert load_application(operator.application).spec({}).name == "views-per-country"


def test_the_decorator_names_the_application_and_takes_what_the_operator_takes(tmp_path: Path) -> None:
    decorator = "@task.samza_stream(name='page-views', samza_conn_id='samza_eu', config={'a': 'b'}, task_id='views')"
    operator = parsed(tmp_path, decorator=decorator)
    assert (operator.task_id, operator.conn_id, operator.config) == ("views", "samza_eu", {"a": "b"})
    operator.module.bring()
    assert load_application(operator.application).spec({}).name == "page-views"


def test_a_module_that_lies_beside_the_dag_file_travels_with_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "__init__.py").write_text("LEAST = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    operator = parsed(tmp_path, body="import json\n        from rules import LEAST\n        " + BODY)
    operator._bring()
    assert operator.py_modules[1:] == [str(tmp_path / "rules")]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"above": "LEAST = 1", "body": BODY.replace("> 1", "> LEAST")}, "uses 'LEAST' of the Dag file"),
        ({"above": "from rules import a, b", "body": "a(app, b)"}, "uses 'a', 'b' of the Dag file"),
        (
            {"body": "class View:\n            at: datetime\n            day = datetime.day"},
            "uses 'datetime' of the Dag file",
        ),
        ({"parameters": "app, region"}, "has the parameters (app, region)"),
        ({"parameters": ""}, "has the parameters ()"),
        ({"decorator": "@task.samza_stream(application='a:b')"}, "@task.samza_stream has application='a:b'"),
        (
            {"decorator": "@task.samza_push(application='a:b', table='t', source='/x')"},
            "@task.samza_push has source='/x'",
        ),
    ],
)
def test_rejects_when_the_file_is_read_a_function_that_needs_more_than_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], sentence: str
) -> None:
    (tmp_path / "rules.py").write_text("a = b = print")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(AssertionError) as rejected:
        parsed(tmp_path, **given)
    assert sentence in str(rejected.value)
    monkeypatch.delitem(sys.modules, "rules", raising=False)


def test_a_function_of_a_dag_file_is_the_source_of_a_push(tmp_path: Path) -> None:
    operator = parsed(
        tmp_path,
        decorator="@task.samza_push(application='provider_applications:with_profiles', table='profiles')",
        parameters="spark",
        body="return spark.range(2)",
    )
    assert isinstance(operator, _SamzaPushDecoratedOperator)
    assert operator.source == {"callable": f"{operator.module.name}:described"}
    operator._bring()
    assert importlib.import_module(operator.module.name).described(type("S", (), {"range": lambda self, n: [n]})()) == [
        2
    ]


def test_a_function_without_a_file_is_rejected() -> None:
    space: dict[str, Any] = {}
    exec("def views(app):\n    pass", space)  # as in a shell
    with pytest.raises(SamzaError, match="source of the function 'views' cannot be read"):
        task.samza_stream(space["views"])()
