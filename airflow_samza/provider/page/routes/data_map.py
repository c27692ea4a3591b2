"""The map over all Dags, and the calendar of an application's outputs."""

from __future__ import annotations

from fastapi import APIRouter

from airflow_samza.provider.page.airflow_records import Records
from airflow_samza.provider.page.calendar import Calendar, calendar_answer
from airflow_samza.provider.page.data_map import DataMap, data_map
from airflow_samza.provider.page.opened_run import Opened
from airflow_samza.provider.page.rights import OF_RUN, ReadableDags
from airflow_samza.provider.page.routes.addresses import OF_PLAN

router = APIRouter(tags=["map"])


@router.get("/api/map", operation_id="map")
def whole_map(may_read: ReadableDags, records: Records) -> DataMap:
    """Return which applications of the Dags that the user may read write and read which data."""
    return data_map(records, may_read)


@router.get(f"{OF_PLAN}/calendar", operation_id="calendar", dependencies=OF_RUN)
def calendar(opened: Opened, records: Records) -> Calendar:
    """Return the slots of the application's outputs: filled, missing, and by which runs."""
    return calendar_answer(opened, records)
