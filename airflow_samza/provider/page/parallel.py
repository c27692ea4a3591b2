"""Requests to a root that is elsewhere, several at a time: each waits for an answer, and costs no processor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from airflow_samza.systems.filesystems.filesystem import Filesystem

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_A_TIME = 16
"""Requests at a time, of all looks of the process."""

_THREADS = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="samza-page")


def of_each(files: Filesystem, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return the results of ``work``, in the order of the items; it may not call this function again.

    On a disk one after the other: there threads cost more than they save.
    """
    if files.local_path("") is not None:
        return [work(item) for item in items]
    calls = [partial(copy_context().run, work, item) for item in items]
    return list(_THREADS.map(lambda call: call(), calls))
