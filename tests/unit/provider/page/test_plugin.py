"""The plugin: its application is made when somebody asks for the page, and once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_samza.provider.page import app
from airflow_samza.provider.page.plugin import APPS, URL_PREFIX, VIEWS, LazyApp, SamzaPlugin


class Application:
    """Stands for the page's application; it remembers for what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Application]:
    made: list[Application] = []

    def make_app() -> Application:
        made.append(Application())
        return made[-1]

    monkeypatch.setattr(app, "make_app", make_app)
    return made


def test_the_application_is_made_with_the_first_request_and_answers_all(made: list[Application]) -> None:
    lazy = LazyApp()
    assert made == []

    async def ask() -> None:
        await asyncio.gather(*(lazy({"path": path}, None, None) for path in ("/a", "/b")))
        await lazy({"path": "/c"}, None, None)

    asyncio.run(ask())
    (application,) = made
    assert sorted(application.asked) == ["/a", "/b", "/c"]


def test_the_application_is_the_same_for_all_who_ask(made: list[Application]) -> None:
    lazy = LazyApp()
    assert lazy.app() is lazy.app()
    assert len(made) == 1


def test_airflow_gets_the_views_and_the_application_below_one_address() -> None:
    assert [view["destination"] for view in VIEWS] == ["nav", "nav", "dag_run", "task_instance"]
    assert all(str(view["href"]).startswith(f"{URL_PREFIX.strip('/')}/") for view in VIEWS)
    (mounted,) = APPS
    assert mounted["url_prefix"] == URL_PREFIX
    assert repr(mounted["app"]) == "the application of Samza's page"
    assert (SamzaPlugin.fastapi_apps, SamzaPlugin.external_views) == (APPS, VIEWS)
