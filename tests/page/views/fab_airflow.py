"""An Airflow whose users have rights: separate processes over SQLite, with the auth manager of the FAB provider."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx

from demo.airflow_api import AirflowProblem
from demo.airflow_parts import AirflowInParts

OPERATOR, STRANGER = "operator", "stranger"
"""An administrator, and a user who may sign in and read no Dag."""

MAKE_USERS = """
import sys
from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder
with get_application_builder() as builder:
    manager = builder.sm
    manager.sync_roles()
    manager.add_role("Stranger")
    manager.add_permission_to_role(manager.find_role("Stranger"), manager.create_permission("can_read", "Website"))
    for name, role in (("operator", "Admin"), ("stranger", "Stranger")):
        added = manager.add_user(name, name, name, f"{name}@example.org", manager.find_role(role), password=name)
        if not added:
            sys.exit(f"{name} could not be added")
"""


class FabAirflow(AirflowInParts):
    """The processes of an Airflow with the users ``operator`` and ``stranger``, whose passwords are their names."""

    def __init__(self, home: Path, *, dags: Path, connections: Mapping[str, str], env: Mapping[str, str]) -> None:
        fab = {
            "AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
            "AIRFLOW__API__SECRET_KEY": "page",
            "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of this test that is long enough for its algorithm, which wants 64 bytes",
        }
        database = f"sqlite:///{home.resolve()}/airflow.db?timeout=60"
        super().__init__(home, dags=dags, database=database, env={**fab, **env}, connections=connections)
        self.username = OPERATOR

    @property
    def password(self) -> str:
        """The password of the user whose calls this makes."""
        return self.username

    def token(self, user: str) -> str:
        """A token of a user's, as the cookie ``_token`` or a bearer's."""
        answer = httpx.post(
            f"{self.url}/auth/token", json={"username": user, "password": user}, timeout=60, trust_env=False
        )
        if answer.status_code != 201:
            raise AirflowProblem(f"Signing {user} in gave {answer.status_code}: {answer.text}")
        return str(answer.json()["access_token"])

    def _launch(self, timeout: float) -> None:
        self.cli("db", "migrate", timeout=timeout)
        made = subprocess.run(
            [sys.executable, "-c", MAKE_USERS],
            env=self._env,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if made.returncode:
            raise AirflowProblem(f"The users could not be made:\n{made.stdout}\n{made.stderr}")
        for name in self.parts:
            self.start_part(name)
