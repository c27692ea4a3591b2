"""SamzaDag: a Dag that is one application.

Its tasks are those of the application's task group, under their own names.
"""

from __future__ import annotations

import sys
from typing import Any

from airflow.sdk import DAG

from airflow_samza.provider.task_group import OWN_PARAMETERS, SamzaTaskGroup

GROUP = "application"
"""The group of a Dag that is one application."""


class SamzaDag(DAG):
    """A Dag of the tasks of one application: ``plan``, a task per stage, ``cleanup``.

    Other tasks are added as to any Dag; the attribute ``group`` is the :class:`SamzaTaskGroup`, for dependencies.

    ```python
    dag = SamzaDag(
        "flights_of_the_year",
        application="pipelines.flights:flights_of_the_year",
        systems={"data": "flights_data", "warehouse": "flights_warehouse"},
        schedule=None,
    )
    ```

    :param dag_id: The id of the Dag.
    :param application: The application, as ``package.module:attribute``; it is loaded when the Dag file is parsed.
    :param settings: Parameters of :class:`SamzaTaskGroup` (``conn_id``, ``systems``, ``mode``, ``stages``, …), and of a
        Dag (``schedule``, ``start_date``, ``default_args``, …).
    """

    group: SamzaTaskGroup

    def __init__(self, dag_id: str, *, application: str, **settings: Any) -> None:
        ours = {name: settings.pop(name) for name in sorted(OWN_PARAMETERS & settings.keys())}
        super().__init__(dag_id, **settings)
        self.fileloc = sys._getframe(1).f_code.co_filename  # Airflow finds this file, two frames above its own
        with self:
            self.group = SamzaTaskGroup(GROUP, application=application, prefix_group_id=False, **ours)
