"""The one walk: each vertex once, parents first, in the order named, cycles end, no recursion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given, strategies as st

from airflow_samza.planner.graphs import reached, strong_components, traverse


def walk(graph: Mapping[int, Sequence[int]], start: int = 0) -> list[int]:
    seen: list[int] = []
    traverse(start, seen.append, lambda vertex: graph.get(vertex, ()))
    return seen


def test_visits_depth_first_in_the_order_named() -> None:
    assert walk({0: [1, 2], 1: [3], 2: [3, 4]}) == [0, 1, 3, 2, 4]


def test_a_diamond_is_visited_once() -> None:
    assert walk({0: [1, 2], 1: [3], 2: [3]}).count(3) == 1


def test_cycles_end() -> None:
    assert walk({0: [1], 1: [0, 1, 2], 2: [0]}) == [0, 1, 2]


def test_a_chain_longer_than_the_recursion_limit() -> None:
    assert walk({place: [place + 1] for place in range(50_000)}) == list(range(50_001))


def test_asks_for_the_next_vertices_once_per_vertex_and_after_the_visit() -> None:
    events: list[str] = []

    def following(vertex: int) -> list[int]:
        events.append(f"next {vertex}")
        return [1, 0] if vertex == 0 else [0]

    traverse(0, lambda vertex: events.append(f"visit {vertex}"), following)
    assert events == ["visit 0", "next 0", "visit 1", "next 1"]


@given(st.dictionaries(st.integers(0, 20), st.lists(st.integers(0, 20), max_size=5), max_size=20))
def test_reaches_exactly_what_can_be_reached(graph: dict[int, list[int]]) -> None:
    expected, border = {0}, [0]
    while border:
        border = [v for u in border for v in graph.get(u, []) if v not in expected]
        expected.update(border)
    seen = walk(graph)
    assert sorted(seen) == sorted(expected)
    assert seen == walk(graph)
    assert reached([0], lambda vertex: graph.get(vertex, ())) == expected


def test_what_several_starts_reach_has_these_and_ends() -> None:
    graph = {0: [1], 1: [0], 2: [1, 3]}
    assert reached([2, 0, 5], lambda vertex: graph.get(vertex, ())) == {0, 1, 2, 3, 5}
    assert reached([], lambda vertex: [vertex]) == set()


@given(st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=3), max_size=10))
def test_a_component_has_all_that_lead_to_each_other_and_comes_after_all_that_it_leads_to(
    graph: dict[int, list[int]],
) -> None:
    behind = {vertex: reached([vertex], lambda vertex: graph.get(vertex, ())) for vertex in range(10)}
    components = strong_components(range(10), graph)
    assert sorted(vertex for component in components for vertex in component) == list(range(10))
    done: set[int] = set()
    for component in components:
        assert component == sorted(vertex for vertex in behind[component[0]] if component[0] in behind[vertex])
        done.update(component)
        assert behind[component[0]] <= done
