"""Airflow's tables in memory, and rows in them: what its own processes write there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow import models
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.base import Base
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session

import tests.support.airflow_home  # noqa: F401
from airflow_samza.provider.xcoms import PLAN_NOTE

DAY = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Database:
    """Rows of Airflow's tables; each Dag run is a day and each XCom a second later than the last one."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._runs: dict[tuple[str, str], int] = {}
        self._notes = 0

    def run(self, run_id: str, dag_id: str = "visits", state: str = "success", *, dated: bool = True) -> None:
        number = self._runs[dag_id, run_id] = len(self._runs) + 1
        date = DAY + timedelta(days=number - 1)
        row = {"id": number, "dag_id": dag_id, "run_id": run_id, "state": state, "run_type": "manual"}
        self._insert(DagRun, **row, run_after=date, logical_date=date if dated else None, clear_number=0)

    def task(self, task_id: str, run_id: str = "one", map_index: int = -1, **given: Any) -> None:
        row = {"dag_id": "visits", "run_id": run_id, "map_index": map_index, "task_id": task_id}
        self._insert(TaskInstance, **{**row, "try_number": 0, "max_tries": 0, "pool": "default_pool", **given})

    def xcom(self, value: Any, run_id: str = "one", dag_id: str = "visits", **given: Any) -> None:
        self._notes += 1
        row = {"dag_id": dag_id, "run_id": run_id, "dag_run_id": self._runs[dag_id, run_id], "value": value}
        at = DAY + timedelta(seconds=self._notes)
        usual = {"task_id": "flow.plan", "map_index": -1, "key": PLAN_NOTE, "timestamp": at}
        self._insert(XComModel, **row, **{**usual, **given})

    def event(self, name: str, task_id: str, at: datetime, started: tuple[str, ...] = (), **given: Any) -> None:
        asset = AssetModel(name=name, uri=f"s3://lake/{name}", group="asset")
        self.session.add(asset)
        self.session.flush()
        usual: dict[str, Any] = {"source_dag_id": "visits", "source_run_id": "one", "source_map_index": -1, "extra": {}}
        event = AssetEvent(asset_id=asset.id, source_task_id=task_id, timestamp=at, **{**usual, **given})
        event.created_dagruns = [run for run in self.session.query(DagRun).all() if run.run_id in started]
        self.session.add(event)
        self.session.flush()

    def _insert(self, model: Any, **values: Any) -> None:
        self.session.execute(insert(model.__table__).values(**values))


@contextmanager
def airflow_tables() -> Iterator[Database]:
    """Yield empty tables."""
    models.import_all_models()
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        yield Database(session)
    engine.dispose()
