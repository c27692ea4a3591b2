"""Acts beside the commits to a table, in the process that makes them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_samza.systems.filesystems.local import LocalFilesystem

_COMMITS: dict[str, tuple[type, str]] = {
    "delta": (LocalFilesystem, "put_if_absent"),
    "iceberg": (SqlCatalog, "commit_table"),
}


def at_each_commit(
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[int], object],
    after: Callable[[int], None] = lambda _: None,
    kind: str = "delta",
) -> list[int]:
    """Have something done before, and after, each commit of a log or a catalog here; return a list that grows with them."""
    owner, name = _COMMITS[kind]
    commit, tries, inside = getattr(owner, name), list[int](), threading.local()

    def wrapped(self: object, what: Any, *arguments: Any, **options: Any) -> Any:
        is_log = kind == "iceberg" or what.endswith(".json")
        if not is_log or getattr(inside, "acts", False):
            return commit(self, what, *arguments, **options)
        tries.append(len(tries))
        number = len(tries)
        inside.acts = True
        try:
            act(number)
        finally:
            inside.acts = False
        done = commit(self, what, *arguments, **options)
        after(number)
        return done

    monkeypatch.setattr(owner, name, wrapped)
    return tries
