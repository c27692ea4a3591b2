"""An Airflow whose users have rights: separate processes, with the auth manager of the FAB provider.

Its database holds two runs that this process has made (:mod:`tests.page.site_setup`); the API server alone answers
questions about them. What runs Dags is started when a test needs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from demo.airflow_api import AirflowProblem
from demo.airflow_parts import AirflowInParts
from demo.local_airflow import START_SECONDS
from tests.page.site_setup import OPERATOR

REPOSITORY = Path(__file__).resolve().parents[2]
API_SERVER = "api-server"


class FabAirflow(AirflowInParts):
    """The processes of an Airflow with the users of :mod:`tests.page.site_setup`, whose passwords are their names.

    ``notes`` are those of the runs that are there from the beginning, by Dag; ``database`` is SQLite if it is not given.
    """

    def __init__(
        self,
        home: Path,
        *,
        dags: Path,
        connections: Mapping[str, str],
        notes: Mapping[str, Any],
        database: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        fab = {
            "AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
            "AIRFLOW__API__SECRET_KEY": "page",
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of this test that is long enough for its algorithm, which wants 64 bytes",
        }
        sqlite = f"sqlite:///{home.resolve()}/airflow.db?timeout=60"
        super().__init__(
            home, dags=dags, database=database or sqlite, env={**fab, **(env or {})}, connections=connections
        )
        self.username = OPERATOR
        self._notes = notes

    @property
    def password(self) -> str:
        """The password of the user whose calls this makes."""
        return self.username

    def token(self, user: str) -> str:
        """A token of a user's, as the cookie ``_token`` or a bearer's."""
        body = {"username": user, "password": user}
        answer = httpx.post(f"{self.url}/auth/token", json=body, timeout=60, trust_env=False)
        if answer.status_code != 201:
            raise AirflowProblem(f"Signing {user} in gave {answer.status_code}: {answer.text}")
        return str(answer.json()["access_token"])

    def get(self, path: str, token: str | None = None, **asked: Any) -> httpx.Response:
        """Return the answer of an address."""
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        return httpx.get(f"{self.url}{path}", headers=headers, params=asked, timeout=120, trust_env=False)

    def start(self, timeout: float = START_SECONDS) -> None:
        """Starts the API server, and returns once it answers."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.cli("db", "migrate", timeout=timeout)
        path = os.pathsep.join([str(REPOSITORY), *filter(None, [self._env.get("PYTHONPATH")])])
        made = subprocess.run(
            [sys.executable, "-m", "tests.page.site_setup", json.dumps(self._notes)],
            env={**self._env, "PYTHONPATH": path},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if made.returncode:
            raise AirflowProblem(f"Users and runs could not be made:\n{made.stdout}\n{made.stderr}")
        self.start_part(API_SERVER)
        self.wait_until(self._answers, timeout, "the API server", away=(httpx.TransportError,))
        self.sign_in()

    def start_all(self, timeout: float = START_SECONDS) -> None:
        """Starts what runs Dags, and returns once all is healthy."""
        for name in self.parts:
            self.start_part(name)
        self.wait_until(self.is_healthy, timeout, "Airflow to become healthy")

    def _answers(self) -> bool:
        return self.get("/api/v2/version").status_code == 200
