"""The Airflow face: hook, operators, sensors, triggers, task group, page, and the provider's information."""

from __future__ import annotations

import sys

from airflow_samza.provider import triggers

# Deferred tasks of 0.1 name their triggers by these modules.
for _former in ("kafka_triggers", "stream_triggers", "table_triggers"):
    sys.modules[f"{__name__}.{_former}"] = triggers
