"""Placement of tasks: they stay, move only when they have to, and then to a copy of their state."""

from __future__ import annotations

from hypothesis import given, strategies as st

from airflow_samza.engine.placement import Executor, Placement

A1, A2, B1, B2, C1 = (
    Executor(number, host) for host, number in [("a", "1"), ("a", "2"), ("b", "3"), ("b", "4"), ("c", "5")]
)


def homes(placement: Placement) -> dict[int, Executor]:
    return {task: place.executor for task, place in placement.places.items()}


def test_tasks_are_spread_evenly_and_stay() -> None:
    placement = Placement(4)
    assert placement.update([B1, A1])
    first = homes(placement)
    assert sorted(executor.host for executor in first.values()) == ["a", "a", "b", "b"]
    assert not placement.update([A1, B1])
    assert homes(placement) == first


def test_nobody_has_a_place_before_there_is_an_executor() -> None:
    placement = Placement(2)
    assert not placement.update([])
    assert placement.places == {}


def test_only_the_tasks_of_a_lost_executor_move() -> None:
    placement = Placement(6)
    placement.update([A1, B1, C1])
    before = homes(placement)
    placement.update([A1, C1])
    assert all(placement.places[task].executor == home for task, home in before.items() if home != B1)


def test_a_lost_executors_tasks_stay_on_their_host_when_another_is_there() -> None:
    placement = Placement(2)
    placement.update([A1, B1])
    before = homes(placement)
    placement.update([A2, B1])
    assert {task: home.host for task, home in homes(placement).items()} == {
        task: home.host for task, home in before.items()
    }


def test_a_lost_hosts_tasks_go_to_their_copies() -> None:
    placement = Placement(6, copies=2)
    placement.update([A1, B1, C1])
    before = dict(placement.places)
    assert all(len(place.standbys) == 1 and place.standbys[0] != place.executor.host for place in before.values())
    placement.update([A1, C1])
    moved = [task for task, place in before.items() if place.executor == B1]
    assert moved
    assert all((placement.places[task].executor.host,) == before[task].standbys for task in moved)
    assert all(place.standbys for place in placement.places.values())  # and have a new copy somewhere else


def test_an_executor_that_comes_late_gets_its_share() -> None:
    placement = Placement(5)
    placement.update([A1])
    placement.update([A1, B1])
    assert sorted([list(homes(placement).values()).count(executor) for executor in (A1, B1)]) == [2, 3]


def test_the_copies_know_their_hosts() -> None:
    placement = Placement(4, copies=2)
    placement.update([A1, B1])
    assert {host: len(tasks) for host, tasks in placement.standbys().items()} == {"a": 2, "b": 2}
    assert placement.executor_on("b") == B1


def test_one_host_has_nowhere_to_keep_a_copy() -> None:
    placement = Placement(2, copies=3)
    placement.update([A1, A2])
    assert placement.standbys() == {}


def test_spark_is_told_the_executor_and_then_the_hosts_with_a_copy() -> None:
    placement = Placement(1, copies=2)
    placement.update([A1, B1])
    assert placement.places[0].preferred == ["executor_a_1", "b"]


@given(
    st.integers(1, 9),
    st.integers(1, 3),
    st.lists(st.sets(st.sampled_from([A1, A2, B1, B2, C1]), min_size=1), max_size=8),
)
def test_every_task_has_a_living_executor_and_copies_elsewhere(
    tasks: int, copies: int, seen: list[set[Executor]]
) -> None:
    placement = Placement(tasks, copies)
    for living in seen:
        before = dict(placement.places)
        placement.update(living)
        hosts = {executor.host for executor in living}
        assert sorted(placement.places) == list(range(tasks))
        for place in placement.places.values():
            assert place.executor in living
            assert place.executor.host not in place.standbys
            assert len(place.standbys) == min(copies, len(hosts)) - 1
            assert set(place.standbys) <= hosts
        if (
            before
            and {place.executor for place in before.values()} <= living
            and len(living) <= len({p.executor for p in before.values()})
        ):
            assert homes(placement) == {task: place.executor for task, place in before.items()}
