"""The hook of this provider, under the import path that Dag files use."""

from __future__ import annotations

from airflow_samza.provider.hooks.samza import SamzaHook

__all__ = ["SamzaHook"]
