"""Requests of a look: several at a time to a root that is elsewhere."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from threading import Barrier, get_ident

from airflow_samza.provider.page.opened_run import of_each
from airflow_samza.systems.filesystems.local import LocalFilesystem

WHOSE: ContextVar[str] = ContextVar("whose")


class Elsewhere(LocalFilesystem):
    """A filesystem that is none of this machine's."""

    def local_path(self, path: str) -> str | None:
        return None


def test_a_root_that_is_elsewhere_is_asked_several_things_at_a_time(tmp_path: Path) -> None:
    together = Barrier(4)
    WHOSE.set("the caller")

    def ask(number: int) -> tuple[int, str]:
        together.wait(timeout=60)  # passes when four are asked at once
        return number, WHOSE.get()

    found = of_each(Elsewhere(tmp_path), ask, range(8))
    assert found == [(number, "the caller") for number in range(8)]


def test_a_disk_is_read_by_the_thread_that_asks(tmp_path: Path) -> None:
    assert of_each(LocalFilesystem(tmp_path), lambda _: get_ident(), range(3)) == [get_ident()] * 3
