"""Servers that the tests of one folder share, and that end with the last of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

import pytest

Server = TypeVar("Server")

_RUNNING = pytest.StashKey[dict[str, ExitStack]]()


@contextmanager
def serving(config: pytest.Config, folder: str, server: AbstractContextManager[Server]) -> Iterator[Server]:
    """Keep a server for the session, or until :func:`end` is called for its folder."""
    with ExitStack() as running:
        config.stash.setdefault(_RUNNING, {})[folder] = running
        yield running.enter_context(server)


def end(config: pytest.Config, folder: str) -> None:
    """End the server of a folder, if there is one."""
    running = config.stash.get(_RUNNING, {}).pop(folder, None)
    if running is not None:
        running.close()
