"""Users' acts on deferred tasks, for releases of Airflow whose triggers are not told of them.

Since 3.3 Airflow calls ``on_kill`` of a trigger when a user has marked its task or cleared it. Before, it only cancels
the trigger, as it also does when a triggerer stops or hands the trigger to another one. The state of the task tells
which of the two it was.
"""

from __future__ import annotations

import logging
from typing import Any

from airflow_samza.provider.airflow_versions import triggers_hear_of_kills
from airflow_samza.provider.producer_tasks import FAILED_STATES, ProducerTasks

log = logging.getLogger(__name__)


async def ended_by_a_user(task_instance: Any) -> bool:
    """Return whether a user has ended the task of a trigger that was cancelled, and nobody tells the trigger so.

    False, too, where Airflow cannot be asked any more: the triggerer stops.
    """
    if task_instance is None or triggers_hear_of_kills():
        return False
    from asgiref.sync import sync_to_async  # comes with Airflow, whose triggerers ask through it

    asked = ProducerTasks.of(task_instance, {"": task_instance.task_id})
    try:
        state = (await sync_to_async(asked.states, thread_sensitive=False)())[""]
    except Exception as error:
        log.warning(
            "The trigger of %s was cancelled, and Airflow does not answer why; its stages go on: %s",
            task_instance.task_id,
            error,
        )
        return False
    # A task that was cleared has no state, or is about to be tried again, which cancels what ran before.
    return state is None or state == "success" or state in FAILED_STATES
