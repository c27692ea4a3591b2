"""The examples in docstrings of the reference run, after the application at the top of its page."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import airflow_samza
from airflow_samza import StreamApplication, StreamTask, TaskApplication
from tests.support.docstring_examples import docstring_examples
from tests.support.documentation_pages import examples, loaded

EXAMPLES = list(docstring_examples("applications.md"))
OF_TASKS = list(docstring_examples("low-level-tasks.md"))


async def city_of(country: str) -> str:
    return {"NL": "Utrecht"}.get(country, "?")


def fetch(keys: list[str]) -> dict[str, Any]:
    return {}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what the page's first block and the package define."""
    found = vars(loaded("reference/applications.md", "page_views.py", tmp_path, monkeypatch))
    everything = {name: getattr(airflow_samza, name) for name in airflow_samza.__all__}
    return {**everything, **found, "city_of": city_of, "fetch": fetch}


@pytest.mark.parametrize(("name", "code"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_of_an_application_can_be_described(
    name: str, code: str, page: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pipelines.page_views", SimpleNamespace(page_views=page["page_views"]))

    class Described(StreamApplication):
        name = "example"

        def describe(self, app: Any) -> None:
            scope = {**page, "app": app}
            if "default_system" not in code:
                columns = page["COLUMNS"]
                for stream in ("views", "clicks"):
                    scope[stream] = app.input_stream(stream, schema=columns, key="member_id", timestamp="at")
                if 'pushed_table("members"' not in code:
                    scope["members"] = app.pushed_table(
                        "members", key="member_id", schema="member_id bigint, tier string"
                    )
                scope["rates"] = app.input_stream("rates", schema="currency string, rate double")
                scope["changes"] = app.input_stream("changes", schema="member_id bigint, lsn bigint", key="member_id")
                scope["rate_table"] = app.local_table("rates", key="currency", schema="currency string, rate double")
            exec(compile(code, name, "exec", dont_inherit=True), scope)
            if "default_system" in code:
                app.input_stream("views")

    assert Described().spec().inputs


@pytest.mark.parametrize(("name", "code"), OF_TASKS, ids=[name for name, _ in OF_TASKS])
def test_an_example_of_a_low_level_task_runs(name: str, code: str, page: dict[str, Any]) -> None:
    sent: list[Any] = []
    kept: dict[Any, Any] = {}
    store = SimpleNamespace(
        put=lambda key, value: kept.update({key: airflow_samza.Row(value)}),
        get=kept.get,
        range=lambda first, last: iter(kept.items()),
    )
    collector = SimpleNamespace(send=lambda stream, message: sent.append((stream, message)))
    scope: dict[str, Any] = {**page, "store": store, "collector": collector}

    class CountViews(StreamTask):
        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None: ...

    class Described(TaskApplication):
        name = "example"

        def describe(self, app: Any) -> None:
            if "default_system" not in code:
                app.input_stream("views", schema=page["COLUMNS"])
            exec(compile(code, name, "exec", dont_inherit=True), {**scope, "app": app, "CountViews": CountViews})
            if "default_system" in code:
                app.input_stream("views")
            if "app.task" not in code:
                app.task(CountViews)

    assert Described().spec().inputs


def test_operators_and_declarations_have_examples() -> None:
    shown = {name for name, _ in EXAMPLES}
    lacking = [
        f"{kind.__name__}.{name}"
        for kind in (airflow_samza.MessageStream, airflow_samza.StreamApplicationDescriptor)
        for name, value in {
            name: value for base in reversed(kind.__mro__[:-1]) for name, value in vars(base).items()
        }.items()
        if callable(value) and not name.startswith("_") and f"{kind.__name__}.{name}" not in shown
    ]
    assert lacking == ["StreamApplicationDescriptor.check_complete"]
    assert {"StreamTask", "AsyncStreamTask", "TimerListenerTask", "KeyValueStore"} <= {name for name, _ in OF_TASKS}


@pytest.mark.parametrize("page", ["applications.md", "error-classes.md"])
def test_the_example_of_a_page_passes_its_test(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = examples(f"reference/{page}")
    module = loaded(f"reference/{page}", name, tmp_path, monkeypatch)
    (test,) = [function for word, function in vars(module).items() if word.startswith("test_")]
    test()
