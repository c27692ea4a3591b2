"""Dags whose runs a user may read, as Airflow's auth manager says."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.api_fastapi.core_api import security
from airflow.models import DagModel
from starlette.requests import Request

from airflow_samza.provider.page.rights import readable_dags, readable_logs


class AuthManager:
    """Lets users read the runs of the Dags of their own name, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []

    def is_authorized_dag(self, *, method: str, access_entity: Any, details: Any, user: Any) -> bool:
        self.asked.append((method, access_entity.name, details.id))
        return details.id == "" or str(details.id).startswith(user)


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> AuthManager:
    manager = AuthManager()
    monkeypatch.setattr(security, "get_auth_manager", lambda: manager)
    monkeypatch.setattr(DagModel, "get_team_name", lambda dag_id: None, raising=False)
    return manager


def of_jo() -> Any:
    user: Any = "jo"
    return readable_dags(Request({"type": "http", "path_params": {}, "query_string": b""}), user)


def test_dags_are_readable_whose_runs_airflow_lets_the_user_read(manager: AuthManager) -> None:
    may_read = of_jo()
    assert [may_read("jo-visits"), may_read("ed-visits")] == [True, False]
    assert manager.asked == [("GET", "RUN", "jo-visits"), ("GET", "RUN", "ed-visits")]


def test_logs_are_readable_of_dags_whose_task_logs_airflow_lets_the_user_read(manager: AuthManager) -> None:
    user: Any = "jo"
    may_read = readable_logs(Request({"type": "http", "path_params": {}, "query_string": b""}), user)
    assert [may_read("jo-visits"), may_read("ed-visits")] == [True, False]
    assert manager.asked[0] == ("GET", "TASK_LOGS", "jo-visits")


def test_each_dag_is_asked_for_once_in_a_request(manager: AuthManager) -> None:
    may_read = of_jo()
    assert [may_read(name) for name in ("jo-visits", "ed-visits") * 2] == [True, False] * 2
    assert len(manager.asked) == 2


def test_what_no_dag_has_planned_is_readable_by_nobody(manager: AuthManager) -> None:
    assert of_jo()("") is False
