"""The notifier of this provider, under the import path that Dag files use."""

from __future__ import annotations

from airflow_samza.provider.notifications import SamzaStopNotifier

__all__ = ["SamzaStopNotifier"]
