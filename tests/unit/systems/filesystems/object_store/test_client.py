"""Requests to a real S3 through a proxy that fails: what is tried again, what is counted, and what is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_samza.errors import StorageUnavailable, TopicError
from airflow_samza.systems.filesystems.object_store import client, requests
from airflow_samza.systems.filesystems.object_store.filesystem import ObjectStoreFilesystem, open_object_store
from airflow_samza.systems.filesystems.object_store.requests import added, described
from demo.store_servers import BUCKET, S3Server
from tests.support.faulty_store import REJECTIONS, FaultyStore, at
from tests.support.waiting import until

Opened = Callable[..., ObjectStoreFilesystem]


@pytest.fixture
def faulty(s3: S3Server) -> Iterator[FaultyStore]:
    with FaultyStore(s3.endpoint) as found:
        yield found


@pytest.fixture
def opened(faulty: FaultyStore, request: pytest.FixtureRequest) -> Opened:
    """The root of a test behind the proxy; with little patience where nothing is to pass."""

    def open_root(patience: float = 30.0, timeout: float = 20.0, **options: object) -> ObjectStoreFilesystem:
        url = f"s3://{BUCKET}/client/{request.node.name.replace('[', '-').rstrip(']')}"
        return open_object_store(url, {"endpoint": faulty.endpoint, **options}, patience=patience, timeout=timeout)

    return open_root


PASSING = ("slow", "busy", "error", "broken")


@pytest.mark.parametrize("fault", PASSING)
def test_a_failure_that_passes_is_tried_again_and_counted(faulty: FaultyStore, opened: Opened, fault: str) -> None:
    files = opened()
    before = requests.snapshot()
    faulty.fault = at(fault, 1, 3)
    assert files.put_if_absent("a", b"x")
    files.put("a", b"y")
    assert (files.read("a"), files.list("."), files.size("a")) == (b"y", ["a"], 1)
    done = requests.since(before)
    assert done["retried"] == 2
    assert done.get("throttled", 0) == (2 if fault in ("slow", "busy") else 0)


def test_a_conflict_with_a_writer_that_failed_is_tried_again(faulty: FaultyStore, opened: Opened) -> None:
    faulty.fault = at("conflict", 1, 2, method="PUT")
    assert opened().put_if_absent("a", b"x")


def test_an_answer_that_ends_early_is_asked_for_again(faulty: FaultyStore, opened: Opened) -> None:
    files = opened()
    files.put("a", bytes(range(256)) * 1000)
    faulty.fault = at("torn", 1, 3, method="GET")
    assert files.read("a") == bytes(range(256)) * 1000
    assert files.open_input("a").read() == bytes(range(256)) * 1000


def test_a_server_that_is_silent_for_longer_than_the_patience_is_asked_once_more(
    faulty: FaultyStore, opened: Opened
) -> None:
    files = opened(patience=0.1, timeout=0.5)
    faulty.fault = at("silent", 1)
    assert files.put_if_absent("a", b"x")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("slow", "Please reduce your request rate (SlowDown)"),
        ("error", "We encountered an internal error. Please try again (InternalError)"),
        ("broken", "the connection was broken off by 127.0.0.1"),
        ("silent", "no answer came in time by 127.0.0.1"),
    ],
)
@pytest.mark.few(1)
def test_a_failure_that_lasts_is_reported_with_its_reason(
    faulty: FaultyStore, opened: Opened, fault: str, said: str
) -> None:
    files = opened(patience=0.2, timeout=0.3)
    faulty.fault = at(fault)
    for attempt in (lambda: files.put_if_absent("a", b"x"), lambda: files.read("a"), lambda: files.list(".")):
        with pytest.raises(StorageUnavailable, match=r"The storage did not (write|read|list) s3://") as reported:
            attempt()
        assert said in reported.value.sentence
        assert reported.value.retryable


def test_a_store_that_nobody_runs_is_named() -> None:
    files = open_object_store(
        f"s3://{BUCKET}/x",
        {"endpoint": "http://127.0.0.1:1", "access_key_id": "a", "secret_access_key": "hidden"},
        patience=0.1,
    )
    with pytest.raises(StorageUnavailable, match=r"no connection was accepted by 127\.0\.0\.1:1") as reported:
        files.read("a")
    assert "hidden" not in f"{reported.value} {reported.value.facts} {files!r} {files.root} {files.client.access}"


@pytest.mark.parametrize(
    ("fault", "hint"),
    [
        ("skewed", "The clock of this host differs too much"),
        ("denied", "Give the credentials of the environment the right to create, read, list and delete objects"),
        ("expired", "Give fresh credentials in place of the credentials of the environment"),
        ("unknown", "does not accept the credentials of the environment"),
        ("unlike", "does not accept the credentials of the environment"),
        ("lacking", "The store lacks what a root needs"),
    ],
)
def test_a_rejection_names_the_object_the_stores_code_and_the_remedy_at_once(
    faulty: FaultyStore, opened: Opened, fault: str, hint: str
) -> None:
    files = opened()
    faulty.fault = at(fault)
    _, code, message = REJECTIONS[fault]
    for attempt in (lambda: files.put_if_absent("a", b"x"), lambda: files.read("a"), lambda: files.list(".")):
        with pytest.raises(TopicError, match=f"The storage cannot (write|read|list) {files.root}") as rejected:
            attempt()
        assert rejected.value.sentence.endswith(f": {message.rstrip('.')} ({code}).")
        assert hint in rejected.value.hint
        assert not rejected.value.retryable
    assert len(faulty.asked) == 3


def test_an_object_that_a_bulk_deletion_leaves_is_reported(faulty: FaultyStore, opened: Opened) -> None:
    files = opened()
    for name in ("d/a", "d/b"):
        files.put(name, b"x")
    faulty.fault = at("undeleted", method="POST")
    for delete, path in ((files.delete, "d/a"), (files.delete_tree, "d")):
        with pytest.raises(TopicError, match=r"The storage cannot delete .*/d/a: Access Denied \(AccessDenied\)\."):
            delete(path)


def test_a_missing_bucket_is_named(s3: S3Server) -> None:
    files = open_object_store("s3://nobody-made-this/x")
    for attempt in (lambda: files.put_if_absent("a", b"x"), lambda: files.read("a"), lambda: files.list(".")):
        with pytest.raises(TopicError, match=r"there is no bucket 'nobody-made-this' \(NoSuchBucket\)"):
            attempt()


def test_a_token_that_expires_while_the_store_is_used_is_renewed(faulty: FaultyStore, opened: Opened) -> None:
    """The client asks for credentials anew when theirs are about to expire."""
    from dataclasses import replace
    from datetime import datetime, timedelta, timezone

    given: list[str] = []

    def credentials() -> dict[str, object]:
        given.append(f"key-{len(given)}")
        soon = datetime.now(timezone.utc) + timedelta(seconds=1)
        return {"access_key_id": given[-1], "secret_access_key": "s", "token": "t", "expires_at": soon}

    files = opened()
    renewed = client.ObjectClient(files.client.address, replace(files.client.access, provider=credentials))
    renewed.put(files.key("a"), b"x")
    until(lambda: renewed.put(files.key("a"), b"y") or len(given) > 1, seconds=60)


def test_requests_are_counted_by_kind(opened: Opened) -> None:
    files = opened()
    before = requests.snapshot()
    files.put_if_absent("d/a", b"x")
    files.put_if_absent("d/a", b"x")
    files.rename("d/a", "d/b")
    files.list("d")
    files.exists("d")
    files.delete_tree("d")
    assert requests.since(before) == {"PUT": 2, "HEAD": 2, "COPY": 1, "DELETE": 2, "LIST": 2}


def test_requests_of_several_processes_add_up_and_are_described() -> None:
    total = added([{"GET": 1200, "PUT": 1}, {"PUT": 2, "LIST": 5, "retried": 2}, {}])
    assert described(total) == "1,208 requests (3 PUT, 1,200 GET, 5 LIST, 2 retried)"
    assert (described({"GET": 1}), described({})) == ("1 request (1 GET)", "0 requests")
