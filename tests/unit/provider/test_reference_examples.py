"""The examples in docstrings of operators, sensors, hook and assets, in a Dag beside the applications of ``dags/``."""

from __future__ import annotations

import importlib
from typing import Any

import airflow.sdk
import pytest
from airflow.providers.standard.operators.hitl import HITLOperator

from tests.support.docstring_examples import docstring_examples, shown_on
from tests.support.documentation_pages import DOCS

PAGE = "airflow-operators.md"
EXAMPLES = list(docstring_examples(PAGE))
WITH_A_DOCTEST = {"pushed_table", "shared_stream", "kafka_topic"}


@pytest.mark.parametrize(("name", "code"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_of_an_operator_can_be_declared(name: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS.parent / "dags"))
    scope: dict[str, Any] = {"AssetWatcher": airflow.sdk.AssetWatcher, "HITLOperator": HITLOperator}
    for place in shown_on(PAGE):
        module, _, shown = place.rpartition(".")
        scope[shown] = getattr(importlib.import_module(module), shown)
    with airflow.sdk.DAG("example", schedule=None) as dag:
        exec(compile(code, name, "exec", dont_inherit=True), scope)
    made = dag.task_ids or [*scope.get("dag", dag).task_ids]
    assert made or name in ("SamzaHook", "KafkaMessagesTrigger")


def test_everything_on_the_page_has_an_example() -> None:
    shown = {place.rpartition(".")[2] for place in shown_on(PAGE)}
    assert shown - {name for name, _ in EXAMPLES} == WITH_A_DOCTEST
