"""Threads of a triggerer in which clients of servers wait, so that servers that are away hold up nobody else.

The event loop's own threads are few, and every trigger's looks at a root go through them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

CLIENT_THREADS = ThreadPoolExecutor(16, thread_name_prefix="samza-clients")


async def in_client_thread(work: Callable[[], Result]) -> Result:
    """Return the result of work that may wait for servers; Airflow's comforts are there, as in the caller's context."""
    from asgiref.sync import sync_to_async  # comes with Airflow

    # In a thread of this kind Airflow 3.1 can be asked: its answers belong to the triggerer's event loop.
    return await sync_to_async(work, thread_sensitive=False, executor=CLIENT_THREADS)()
