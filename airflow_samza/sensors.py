"""The sensors of this provider, under the import path that Dag files use."""

from __future__ import annotations

from airflow_samza.provider.freshness_sensor import (
    SamzaTableFreshnessSensor,
    TableFreshnessSensor,
)

__all__ = ["SamzaTableFreshnessSensor", "TableFreshnessSensor"]
