"""Forked processes: one whose parent has used a store gets an error at once and ends; nothing of its parent breaks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from airflow_samza.systems.filesystems.object_store import connections
from airflow_samza.systems.filesystems.object_store.access import Access
from airflow_samza.systems.filesystems.object_store.address import parse_address
from demo.store_servers import S3Server

# In a process of its own: here libraries have threads, of which Python warns at every fork.
_PARENT = """
import os, signal, sys
from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.object_store import filesystem as module
from airflow_samza.systems.filesystems.opening import open_filesystem

url, how = sys.argv[1:]
files = open_filesystem(url)
if how != "unused":
    files.put("before", b"x")
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends one that hangs, by a signal
    if how == "drops":
        module.shared_client.cache_clear()
        del files
    else:
        try:
            (files if how != "opens" else open_filesystem(url + "/other")).put("by the child", b"x")
        except TopicError as error:
            print(error, flush=True)
    if how == "leaves":
        os._exit(0)
    sys.exit(0)
print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
files.put("after", b"x")
print(files.list("."), flush=True)
"""


def forked(url: str, how: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _PARENT, url, how],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[5])},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("how", ["asks", "leaves", "opens"])
def test_a_process_forked_after_its_parent_used_a_store_gets_an_error_and_ends(s3: S3Server, how: str) -> None:
    said = forked(s3.url(f"forks/{how}"), how)
    assert said[0].startswith("Process ")
    assert " cannot reach s3://samza-tests: it was forked from process " in said[0]
    assert "Start it with a new interpreter" in said[1]
    assert said[2:] == ["ended 0", "['after', 'before']"]


def test_a_forked_process_that_throws_away_its_parents_connections_ends_and_breaks_nothing(s3: S3Server) -> None:
    assert forked(s3.url("forks/drops"), "drops") == ["ended 0", "['after', 'before']"]


def test_a_process_whose_parent_has_only_opened_a_root_may_use_it_as_sparks_workers_do(s3: S3Server) -> None:
    assert forked(s3.url("forks/unused"), "unused") == ["ended 0", "['after', 'by the child']"]


@pytest.mark.parametrize("url", ["s3://bucket/x", "gs://bucket/x", "abfss://container@account.dfs.core.windows.net/x"])
def test_a_connection_that_nobody_has_any_more_is_not_kept(url: str) -> None:
    """Credentials that change make new clients: those of the former ones must not stay for the life of a process."""
    settings = {"account_name": "account", "account_key": "a2V5"} if url.startswith("abfss") else {}
    access = Access(settings=tuple(settings.items()))
    store = connections.connect(parse_address(url)[0], access, 1.0, retries=True)
    assert any(one is store for one in connections._connections.values())
    gone = weakref.ref(store)
    del store
    gc.collect()
    assert gone() is None
