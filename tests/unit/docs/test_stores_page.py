"""The limits in docs/concepts/stores.md are true."""

from __future__ import annotations

from airflow_samza.config import STORE_BACKENDS
from airflow_samza.storage.rocksdb import MOST_KEY_BYTES, MOST_VALUE_BYTES
from tests.support.documentation_pages import text_of


def test_the_limits_are_those_of_the_code() -> None:
    assert f"{MOST_VALUE_BYTES >> 20} MiB, {MOST_KEY_BYTES >> 20} MiB" in text_of("concepts/stores.md")


def test_every_backend_has_a_row() -> None:
    assert not [name for name in STORE_BACKENDS if f"\n| `{name}` |" not in text_of("concepts/stores.md")]
