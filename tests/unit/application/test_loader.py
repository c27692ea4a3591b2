"""An application is found by its name, or the sentence says what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza import StreamApplication, load_application
from airflow_samza.errors import InvalidApplication, UnknownName

MODULE = """
from airflow_samza import StreamApplication, stream_application

@stream_application("views")
def views(app):
    app.input_stream("a")

class Clicks(StreamApplication):
    name = "clicks"
    def describe(self, app):
        app.input_stream("a")

class Demanding(StreamApplication):
    name = "demanding"
    def __init__(self, limit):
        self.limit = limit

class Group:
    inner = views

def plain(app):
    app.input_stream("a")

number = 3
"""


@pytest.fixture(autouse=True)
def pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "loader_pipelines"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "jobs.py").write_text(MODULE)
    (package / "broken.py").write_text("1 / 0")
    (package / "needy.py").write_text("import a_module_that_nobody_has")
    (package / "wrong.py").write_text("from airflow_samza import stream_application\nstream_application('not a name')")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(("attribute", "name"), [("views", "views"), ("Clicks", "clicks"), ("Group.inner", "views")])
def test_loads_both_forms(attribute: str, name: str) -> None:
    application = load_application(f"loader_pipelines.jobs:{attribute}")
    assert isinstance(application, StreamApplication)
    assert application.spec().name == name


def test_an_application_is_returned_as_it_is() -> None:
    application = load_application("loader_pipelines.jobs:views")
    assert load_application(application) is application
    assert load_application(type(load_application("loader_pipelines.jobs:Clicks"))).name == "clicks"


@pytest.mark.parametrize("name", ["views", "a.b", "a:b:c", "a b:c", "", ":views", "jobs.py:views/", None])
def test_rejects_what_names_nothing(name: str) -> None:
    with pytest.raises(InvalidApplication, match="does not name an application"):
        load_application(name)


@pytest.mark.parametrize(
    "name", ["no_such_package.jobs:views", "loader_pipelines.nothing:views", "loader_pipelines.jobs.deeper:views"]
)
def test_rejects_a_missing_module(name: str) -> None:
    with pytest.raises(UnknownName, match="There is no module") as caught:
        load_application(name)
    assert "Python path" in caught.value.hint


def test_rejects_a_missing_attribute_and_names_the_applications() -> None:
    with pytest.raises(UnknownName, match="has no 'view'") as caught:
        load_application("loader_pipelines.jobs:view")
    assert caught.value.hint == "Did you mean 'views'? Its applications are: Clicks, Demanding, views."


@pytest.mark.parametrize(("attribute", "what"), [("plain", "a function"), ("number", "3"), ("Group", "Group")])
def test_rejects_what_is_no_application(attribute: str, what: str) -> None:
    with pytest.raises(InvalidApplication, match=f"{what}.*, not an application"):
        load_application(f"loader_pipelines.jobs:{attribute}")


def test_rejects_a_class_that_wants_arguments() -> None:
    with pytest.raises(InvalidApplication, match="without arguments"):
        load_application("loader_pipelines.jobs:Demanding")


def test_says_why_a_module_cannot_be_imported() -> None:
    with pytest.raises(InvalidApplication, match="ZeroDivisionError"):
        load_application("loader_pipelines.broken:views")
    with pytest.raises(InvalidApplication, match="needs the module 'a_module_that_nobody_has'"):
        load_application("loader_pipelines.needy:views")
    with pytest.raises(InvalidApplication, match=r"'not a name' has characters.*wrong\.py:2"):
        load_application("loader_pipelines.wrong:views")
