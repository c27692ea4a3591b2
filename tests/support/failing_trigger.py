"""A trigger that fails, in a module that a triggerer can load."""

from __future__ import annotations

from typing import Any

from airflow_samza.provider.triggers.runs import SamzaStageTrigger
from airflow_samza.systems.filesystems.filesystem import Filesystem


class FailingTrigger(SamzaStageTrigger):
    """Fails at its first look.

    One that cannot be loaded would do more harm on SQLite: the next trigger gets its id, and Airflow 3.1 does not start
    it.
    """

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """Raise an error."""
        raise RuntimeError("This trigger fails.")
