"""Requests of several processes add up, and people read them in one line."""

from __future__ import annotations

from airflow_samza.systems.filesystems.object_store.requests import added, described


def test_requests_of_several_processes_add_up_and_are_described() -> None:
    total = added([{"GET": 1200, "PUT": 1}, {"PUT": 2, "LIST": 5, "retried": 2}, {}])
    assert described(total) == "1,208 requests (3 PUT, 1,200 GET, 5 LIST, 2 retried)"
    assert (described({"GET": 1}), described({})) == ("1 request (1 GET)", "0 requests")
