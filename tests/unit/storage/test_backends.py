"""Back ends of stores: each name that may be declared or configured makes a store, and the contract tests try it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.config import STORE_BACKENDS, Config
from airflow_samza.schema import Schema
from airflow_samza.storage.backends import StoreSettings, make_store
from airflow_samza.storage.store import StoreLayout
from tests.contract.test_stores import STORES

LAYOUT = StoreLayout("counts", Schema.of("key string"), Schema.of("value bigint"))


@pytest.mark.parametrize("backend", STORE_BACKENDS)
def test_every_backend_makes_a_store_of_its_own(backend: str, tmp_path: Path) -> None:
    config = Config({"job.store.local.dir": str(tmp_path)})
    store = make_store(LAYOUT, StoreSettings(backend), config, lambda: 0)
    store.put("a", (1,))
    assert store.get("a") == (1,)
    assert backend in type(store).__module__


def test_the_contract_tries_every_backend() -> None:
    assert set(STORES) == set(STORE_BACKENDS)
