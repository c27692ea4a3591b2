from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.root_access import (
    NO_ACCESS,
    RootAccess,
    access_of,
    access_within,
    give_access,
)

ROOT = "webhdfs://nowhere:9870/samza"


@pytest.fixture(autouse=True)
def nothing_given() -> Iterator[None]:
    yield
    give_access(ROOT, NO_ACCESS)


def user_of(root: str, options: dict[str, Any] | None = None) -> str:
    filesystem: Any = open_filesystem(root, options)
    return str(filesystem.client.access.user)


def test_whoever_opens_a_root_by_its_url_gets_the_access_that_the_process_was_given() -> None:
    give_access(ROOT, RootAccess({"user": "etl"}))
    assert user_of(ROOT) == user_of(f"{ROOT}/") == "etl"


def test_options_of_ones_own_win_over_the_access_that_was_given() -> None:
    give_access(ROOT, RootAccess({"user": "etl"}))
    assert user_of(ROOT, {"user": "me", "durable": "true"}) == "me"
    assert user_of(ROOT, {"durable": "true"}) == "etl"


def test_another_root_gets_nothing_of_it() -> None:
    give_access(ROOT, RootAccess({"user": "etl"}))
    assert user_of("webhdfs://nowhere:9870/other") != "etl"


def test_an_access_of_no_options_takes_back_the_one_before() -> None:
    give_access(ROOT, RootAccess({"user": "etl"}))
    give_access(ROOT, NO_ACCESS)
    assert access_of(ROOT) == NO_ACCESS


def test_two_contexts_of_one_process_open_a_root_with_an_access_each() -> None:
    met, seen = threading.Barrier(2), {}

    def look(name: str) -> None:
        with access_within(ROOT, RootAccess({"user": name})):
            met.wait(300)
            seen[name] = user_of(ROOT)
            met.wait(300)

    threads = [threading.Thread(target=look, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert seen == {"a": "a", "b": "b"}
    assert access_of(ROOT) == NO_ACCESS


def test_a_context_without_options_is_not_lent_those_of_others() -> None:
    give_access(ROOT, RootAccess({"user": "etl"}, "samza_a"))
    with access_within(ROOT, NO_ACCESS):
        assert access_of(ROOT) == NO_ACCESS


def test_rejects_a_root_by_its_url_alone_when_two_connections_open_it_differently() -> None:
    give_access(ROOT, RootAccess({"user": "etl"}, "samza_a"))
    give_access(ROOT, RootAccess({"user": "etl"}, "samza_b"))
    assert user_of(ROOT) == "etl"
    give_access(ROOT, RootAccess({"user": "reader"}, "samza_b"))
    with pytest.raises(ConfigError, match="The connections 'samza_a' and 'samza_b' open the root webhdfs://nowhere"):
        user_of(ROOT)
    with access_within(ROOT, RootAccess({"user": "etl"}, "samza_a")):
        assert user_of(ROOT) == "etl"


def test_new_options_of_a_connection_take_the_place_of_its_own() -> None:
    give_access(ROOT, RootAccess({"user": "yesterday"}, "samza_a"))
    give_access(ROOT, RootAccess({"user": "today"}, "samza_a"))
    assert user_of(ROOT) == "today"


def test_options_of_no_connection_take_the_place_of_all() -> None:
    give_access(ROOT, RootAccess({"user": "a"}, "samza_a"))
    give_access(ROOT, RootAccess({"user": "b"}, "samza_b"))
    give_access(ROOT, RootAccess({"user": "here"}))
    assert user_of(ROOT) == "here"


def test_no_text_of_an_access_shows_a_secret() -> None:
    access = RootAccess({"user": "etl", "token": "hush", "secret_access_key": "hush", "service_account_key": "hush"})
    assert "hush" not in repr(access)
    assert access.secret == {"token", "secret_access_key", "service_account_key"}
