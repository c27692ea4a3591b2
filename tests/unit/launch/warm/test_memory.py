"""The memory that warm runners leave to others, by what is free of the smallest limit."""

from __future__ import annotations

import pytest

from airflow_samza.launch.java.container_limits import MemoryRoom
from airflow_samza.launch.warm.settings import NEEDED, why_not_kept, why_to_leave

MIB = 1 << 20


def room(limit: int, free: int, stalled: float = 0.0) -> MemoryRoom:
    return MemoryRoom(f"a limit of {limit}", limit * MIB, free * MIB, stalled)


@pytest.mark.parametrize(
    ("rooms", "is_for_commands", "is_kept"),
    [
        ([], False, True),
        ([room(6144, 2048)], False, True),
        ([room(6144, 2047)], False, False),
        ([room(6144, 512)], True, True),
        ([room(6144, 511)], True, False),
        ([room(900, 511)], False, False),  # more than a third, and less than anybody may be left with
        ([room(65536, 40000), room(2048, 600)], False, False),
        ([room(2048, 1000), room(65536, 8000)], False, False),
    ],
)
def test_one_is_kept_where_a_third_of_every_limit_is_free_and_for_commands_512_mib(
    rooms: list[MemoryRoom], is_for_commands: bool, is_kept: bool
) -> None:
    assert (not why_not_kept(rooms, is_for_commands=is_for_commands)) == is_kept


def test_one_that_would_not_be_kept_is_not_started() -> None:
    least = 2048 + NEEDED // MIB
    assert not why_not_kept([room(6144, least)], is_for_commands=False, needed=NEEDED)
    assert why_not_kept([room(6144, least - 1)], is_for_commands=False, needed=NEEDED) == (
        f"of the 6144 MiB of a limit of 6144 {least - 1} MiB are free, a warm runner takes 700, "
        "less than 2048 would be left"
    )


@pytest.mark.parametrize(
    ("rooms", "is_for_commands", "why"),
    [
        ([room(6144, 1024)], False, ""),
        ([room(6144, 1023)], False, "of the 6144 MiB of a limit of 6144 1023 MiB are free, less than 1024"),
        ([room(6144, 1023)], True, ""),
        ([room(6144, 511)], True, "of the 6144 MiB of a limit of 6144 511 MiB are free, less than 512"),
        ([room(6144, 6000, 0.9)], False, ""),
        ([room(6144, 6000, 1.0)], True, "processes of a limit of 6144 wait for memory (1 % of ten seconds)"),
    ],
)
def test_an_idle_one_leaves_when_processes_wait_for_memory_or_a_sixth_is_left(
    rooms: list[MemoryRoom], is_for_commands: bool, why: str
) -> None:
    assert why_to_leave(rooms, is_for_commands=is_for_commands) == why
