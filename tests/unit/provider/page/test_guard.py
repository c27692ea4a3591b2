"""The outermost part of the page: headers of every answer, and questions that are answered at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_samza.provider.page.app import A_YEAR, AT_ONCE, Guard


def answer(path: str, status: int = 200, kind: str = "http", error: Exception | None = None, begun: bool = True) -> Any:
    """Return the messages of an answer, by their type; ``error`` comes once the answer has begun, or before."""
    sent: list[dict[str, Any]] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if begun:
            await send({"type": "http.response.start", "status": status, "headers": []})
        if error is not None:
            raise error
        await send({"type": "http.response.body", "body": b"x"})

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(Guard(application)({"type": kind, "path": path}, None, send))  # type: ignore[arg-type]
    return {message["type"]: message for message in sent}


def headers(path: str, status: int = 200) -> dict[str, str]:
    found = answer(path, status)["http.response.start"]["headers"]
    return {name.decode(): value.decode() for name, value in found}


@pytest.mark.parametrize(
    ("path", "status", "cached"),
    [
        ("/samza/assets/index-1a2b.js", 200, A_YEAR),
        ("/samza/assets/gone.js", 404, "no-store"),
        ("/samza/api/dags/assets/x", 200, "no-store"),
        ("/samza/", 200, "no-store"),
    ],
)
def test_only_files_whose_names_hold_a_hash_are_cached(path: str, status: int, cached: str) -> None:
    found = headers(path, status)
    assert found["cache-control"] == cached
    assert found["x-content-type-options"] == "nosniff"
    assert found["referrer-policy"] == "same-origin"
    assert "default-src 'none'" in found["content-security-policy"]


def test_what_is_no_request_passes_as_it_is() -> None:
    assert answer("/samza/", kind="lifespan")["http.response.start"]["headers"] == []


def test_an_error_before_the_answer_begins_is_one_sentence() -> None:
    found = answer("/samza/api/x", error=ZeroDivisionError(), begun=False)
    assert found["http.response.start"]["status"] == 500
    assert b"(ZeroDivisionError)" in found["http.response.body"]["body"]


def test_an_error_in_the_middle_of_an_answer_ends_it() -> None:
    with pytest.raises(ZeroDivisionError):
        answer("/samza/api/x", error=ZeroDivisionError())


@pytest.mark.parametrize(("path", "most"), [("/samza/api/runs", AT_ONCE), ("/samza/index.html", 3 * AT_ONCE)])
def test_so_many_questions_are_answered_at_a_time_and_files_besides(path: str, most: int) -> None:
    at_work, seen = 0, 0

    async def application(scope: Any, receive: Any, send: Any) -> None:
        nonlocal at_work, seen
        at_work += 1
        seen = max(seen, at_work)
        for _ in range(10):
            await asyncio.sleep(0)
        at_work -= 1

    async def ask() -> None:
        guard: Any = Guard(application)
        await asyncio.gather(*(guard({"type": "http", "path": path}, None, None) for _ in range(3 * AT_ONCE)))

    asyncio.run(ask())
    assert seen == most
