"""Acts beside the commits to a log of Delta, in the process that makes them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from airflow_samza.systems.filesystems.local import LocalFilesystem


def at_each_commit(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None], after: Callable[[int], None] = lambda _: None
) -> list[int]:
    """Have something done before, and after, each commit of a log here; return a list that grows with them."""
    put, tries, inside = LocalFilesystem.put_if_absent, list[int](), threading.local()

    def wrapped(self: LocalFilesystem, path: str, data: bytes, *, durable: bool = True) -> bool:
        if not path.endswith(".json") or getattr(inside, "acts", False):
            return put(self, path, data, durable=durable)
        tries.append(len(tries))
        number = len(tries)
        inside.acts = True
        try:
            act(number)
        finally:
            inside.acts = False
        done = put(self, path, data, durable=durable)
        after(number)
        return done

    monkeypatch.setattr(LocalFilesystem, "put_if_absent", wrapped)
    return tries
