"""A local session is opened when something of a run needs it: by the first that does, and by nobody else."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_samza.errors import StageFailed, StageLost
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.spark.sessions.late_session import LateSession
from tests.support.stand_ins import Session


class Opened(Session):
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def cancel(self, tag: str) -> None:
        self.asked.append(f"cancel {tag}")

    def stop(self) -> None:
        self.asked.append("stop")

    def kill(self) -> None:
        self.asked.append("kill")

    def answers(self) -> bool:
        return False

    def processor_seconds(self) -> float | None:
        return 4.0


class Late:
    """A late session, what it opens, and whether its Java was abandoned."""

    def __init__(self, *failures: Exception) -> None:
        self.opened: list[Opened] = []
        self.abandoned = 0
        self._failures = list(failures)
        self.session = LateSession("local[2]", self._open, self._abandon)

    def _open(self) -> DriverSession:
        if self._failures:
            raise self._failures.pop(0)
        self.opened.append(Opened())
        return self.opened[-1]

    def _abandon(self) -> None:
        self.abandoned += 1

    def use(self) -> Any:
        with self.session.stage_session({}, own=False) as spark:
            return spark


def test_nothing_that_looks_after_it_opens_it() -> None:
    late = Late()
    session = late.session
    session.cancel("tag")
    session.kill()
    assert (session.answers(), session.page(), session.processor_seconds()) == (True, None, None)
    assert (session.place, session.passes_properties, session.knows_executors) == ("Spark (local[2])", True, False)
    assert session.for_workers(None, {}) == {}
    assert (late.opened, session.is_up) == ([], False)


def test_one_that_nobody_needed_is_abandoned_not_stopped() -> None:
    late = Late()
    late.session.stop()
    assert (late.opened, late.abandoned) == ([], 1)


def test_once_it_is_open_it_is_asked_itself() -> None:
    late = Late()
    late.use()
    session = late.session
    session.cancel("tag")
    session.kill()
    session.stop()
    assert (session.is_up, session.answers(), session.processor_seconds()) == (True, False, 4.0)
    assert (late.opened[0].asked, late.abandoned) == (["cancel tag", "kill", "stop"], 0)


def test_stages_that_need_it_at_once_open_one() -> None:
    late = Late()
    threads = [threading.Thread(target=late.use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(late.opened) == 1


def test_the_next_stage_tries_again_where_it_did_not_come_up() -> None:
    late = Late(StageFailed("Spark does not start: Java has ended"))
    with pytest.raises(StageFailed, match=r"Spark does not start: Java has ended"):
        late.use()
    late.use()
    assert late.session.is_up


def test_an_error_of_ours_is_raised_as_it_is() -> None:
    gone = StageLost("The warm runner ended before its Spark was up.")
    with pytest.raises(StageLost) as raised:
        Late(gone).use()
    assert raised.value is gone
