"""Backends of stores, which the application declares and the configuration may override.

The compiler of a stage asks it for a low-level task's store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_samza.config import Config
from airflow_samza.storage.expiring import ExpiringStore, with_times
from airflow_samza.storage.local_store import host_part
from airflow_samza.storage.memory import MemoryStore
from airflow_samza.storage.store import KeyValueStore, StoreLayout


@dataclass(frozen=True)
class StoreSettings:
    """Settings of a store: ``backend`` is ``memory`` or ``rocksdb``.

    ``ttl_ms`` None: entries live until they are deleted; the limits are bytes.
    """

    backend: str = "memory"
    ttl_ms: int | None = None
    most_key_bytes: int | None = None
    most_value_bytes: int | None = None
    most_bytes: int | None = None

    @staticmethod
    def of(config: Config, store: str, backend: str, ttl_ms: int | None) -> StoreSettings:
        """Return what was declared, overridden by configuration; the limits are bytes.

        - ``max.key.bytes``: the largest key; for RocksDB. Default: 1,048,576 (1 MiB)
        - ``max.value.bytes``: the largest value; for RocksDB. Default: 67,108,864 (64 MiB)
        - ``max.bytes``: the largest size of all entries of one task. Default: no limit
        """
        return StoreSettings(
            config.store_backend(store, backend),
            config.store_ttl_ms(store, ttl_ms),
            config.integer(f"stores.{store}.max.key.bytes", None, least=1),
            config.integer(f"stores.{store}.max.value.bytes", None, least=1),
            config.integer(f"stores.{store}.max.bytes", None, least=1),
        )


def make_store(layout: StoreLayout, settings: StoreSettings, config: Config, clock: Callable[[], int]) -> KeyValueStore:
    """Return an empty store of one task."""
    if settings.ttl_ms is None:
        return _new_store(layout, settings, config)
    return ExpiringStore(layout, _new_store(with_times(layout), settings, config), settings.ttl_ms, clock)


def _new_store(layout: StoreLayout, settings: StoreSettings, config: Config) -> KeyValueStore:
    return _MAKERS[settings.backend](layout, settings, config)


def _memory(layout: StoreLayout, settings: StoreSettings, config: Config) -> KeyValueStore:
    return MemoryStore(layout, settings.most_bytes)


def _rocksdb(layout: StoreLayout, settings: StoreSettings, config: Config) -> KeyValueStore:
    from airflow_samza.storage.rocksdb import MOST_KEY_BYTES, MOST_VALUE_BYTES, RocksStore

    return RocksStore(
        layout,
        host_part("rocksdb", config.store_local_dir),
        most_key_bytes=settings.most_key_bytes or MOST_KEY_BYTES,
        most_value_bytes=settings.most_value_bytes or MOST_VALUE_BYTES,
        most_bytes=settings.most_bytes,
    )


_MAKERS: dict[str, Callable[[StoreLayout, StoreSettings, Config], KeyValueStore]] = {
    "memory": _memory,
    "rocksdb": _rocksdb,
}
