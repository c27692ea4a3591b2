"""The page over PostgreSQL as Airflow's database gives the answers that it gives over SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from demo.databases import running_postgres
from tests.page.conftest import DAGS, PARAMETERS, ROUTES, Place, address
from tests.page.fab_airflow import FabAirflow

pytestmark = [pytest.mark.airflow, pytest.mark.nightly, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def over_postgres(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FabAirflow]:
    folder = tmp_path_factory.mktemp("postgres")
    with (
        running_postgres(folder / "database") as database,
        FabAirflow(
            folder / "home", dags=DAGS, connections=place.connections, notes=place.notes, database=database
        ) as airflow,
    ):
        yield airflow


@pytest.mark.parametrize("path", sorted(ROUTES))
def test_each_question_has_the_answer_that_it_has_over_sqlite(
    site: FabAirflow, over_postgres: FabAirflow, path: str
) -> None:
    parameters = PARAMETERS.get(str(ROUTES[path].operation_id), {})
    answers = [one.get(address(path, "ours"), one.token("ours"), **parameters) for one in (site, over_postgres)]
    assert answers[0].status_code == answers[1].status_code
    assert _lasting(answers[0].json()) == _lasting(answers[1].json())


def _lasting(found: Any) -> Any:
    """Return an answer without what differs from one database to another: when its rows were written."""
    if isinstance(found, dict):
        return {name: _lasting(value) for name, value in found.items() if name not in ("began_at", "started_at")}
    return [_lasting(value) for value in found] if isinstance(found, list) else found
