"""Typed reading of Samza's configuration keys. Keys keep Samza's spelling; values come as texts.

Each reader documents a key's meaning, unit and default, and raises :class:`~airflow_samza.errors.ConfigError` with
the key, the value and where it came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from airflow_samza.errors import ConfigError

HOST_AFFINITY = "job.host-affinity.enabled"
SHOW_MESSAGES = "job.messages.shown"
HOST_AFFINITY_BEFORE = "yarn.samza.host-affinity.enabled"
INTERMEDIATE_PARTITIONS = "job.intermediate.stream.partitions"
INTERMEDIATE_PARTITIONS_MAX = "job.intermediate.stream.partitions.max"
INTERMEDIATE_WHOLE_MESSAGES = "job.intermediate.stream.whole.messages"
APP_MODE = "app.mode"
BATCH_SIZE = "task.consumer.batch.size"
CHOOSER_CLASS = "task.chooser.class"
CHOOSER_WAIT_FOR_HEAD = "task.chooser.wait.for.head"
STANDBY_REPLICATION = "job.standbytasks.replication.factor"
STORE_LOCAL_DIR = "job.store.local.dir"
STORE_LOCAL_MAX_BYTES = "job.store.local.max.bytes"
STATE_LEASE_GRACE = "job.state.lease.grace.ms"
STATE_LEASE_WAIT = "job.state.lease.wait.ms"
STATE_VERSIONS_KEEP = "job.state.versions.keep"
TASK_CALLBACK_TIMEOUT = "task.callback.timeout.ms"
TASK_MAX_CONCURRENCY = "task.max.concurrency"
TASK_WINDOW = "task.window.ms"
EPOCH_MAX_MESSAGES = "job.epoch.max.messages"
EPOCH_MAX_MS = "job.epoch.max.ms"
WATERMARK_IDLE_TIMEOUT = "task.watermark.idle.timeout.ms"

MAX_PARTITIONS = 65_536
"""The largest count of partitions that a stream may have (rule P3)."""

_MAX_INT = 2**31 - 1
_MAX_LONG = 2**63 - 1

_STORE_KEY = re.compile(r"stores\.(.+?)\.(side\.inputs\.processor\.factory|side\.inputs|factory|changelog)")
"""The longer ending first: both ``side.inputs.processor.factory`` and ``factory`` end alike (rule S8)."""

_STORE_LIMIT_KEY = re.compile(r"stores\.(.+?)\.(rocksdb\.ttl\.ms|max\.key\.bytes|max\.value\.bytes|max\.bytes)")
_PRIORITY_KEY = re.compile(r"task\.chooser\.priorities\..+|(?:systems\..+\.)?streams\..+\.samza\.priority")
_BOOTSTRAP_KEY = re.compile(r"(?:systems\..+\.)?streams\..+\.samza\.bootstrap")
_FIRST_OFFSET_KEY = re.compile(r"streams\.(.+)\.samza\.offset\.default")

STORE_BACKENDS = ("memory", "rocksdb")
"""Kinds of stores; :mod:`airflow_samza.storage.backends` makes them."""

_BACKENDS = {"RocksDbKeyValueStorageEngineFactory": "rocksdb", "InMemoryKeyValueStorageEngineFactory": "memory"}


class Config(Mapping[str, str]):
    """Configuration keys and values, and ``source``: where they came from, for error messages.

    >>> Config({"job.intermediate.stream.partitions": "16"}).intermediate_partitions
    16
    """

    def __init__(
        self, values: Mapping[str, Any] | None = None, source: str = "the application's configuration"
    ) -> None:
        self.source = source
        self._values: dict[str, str] = {}
        for key, value in (values or {}).items():
            if value is not None:  # None unsets a key, as an absent one
                self._values[str(key)] = str(value)

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Config({len(self)} keys from {self.source})"  # never the values: they may be secrets

    def reject(self, key: str, wanted: str) -> NoReturn:
        """Raise :class:`ConfigError` for a key's value; ``wanted`` says what it has to be."""
        value = self._values.get(key)
        raise ConfigError(
            f"{key} is {value!r} in {self.source}.", hint=f"It is {wanted}.", key=key, value=value, source=self.source
        )

    # -- kinds of values ---------------------------------------------------------------------------------------------

    def text(self, key: str, default: str | None = None) -> str | None:
        """A text without surrounding blanks; blank means unset."""
        return self._values.get(key, "").strip() or default

    def integer(self, key: str, default: int | None = None, *, least: int | None = None) -> int | None:
        """A whole number of 64 bits; blank means unset."""
        text = self.text(key)
        if text is None:
            return default
        wanted = "a whole number" + ("" if least is None else f" from {least}")
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            self.reject(key, wanted)
        if (
            len(text.lstrip("+-").lstrip("0")) > len(str(_MAX_LONG))
            or not -_MAX_LONG - 1 <= (number := int(text)) <= _MAX_LONG
        ):
            self.reject(key, f"{wanted} that fits into 64 bits")
        if least is not None and number < least:
            self.reject(key, wanted)
        return number

    def boolean(self, key: str, default: bool = False) -> bool:
        """``true`` or ``false``, in any case; blank means unset."""
        text = (self.text(key) or str(default)).lower()
        if text not in ("true", "false"):
            self.reject(key, "true or false")
        return text == "true"

    def listing(self, key: str) -> tuple[str, ...]:
        """A comma-separated list; blanks and empty parts are left out."""
        return tuple(part.strip() for part in self._values.get(key, "").split(",") if part.strip())

    # -- planning ----------------------------------------------------------------------------------------------------

    @property
    def intermediate_partitions(self) -> int | None:
        """The partition count of intermediate streams that nothing else decides.

        -1 and absence are None (rule P3).
        """
        return self._count(INTERMEDIATE_PARTITIONS, MAX_PARTITIONS)

    @property
    def intermediate_partitions_max(self) -> int:
        """The cap on inferred counts (rule P2): 256 unless set. Larger than any count, it lifts the cap."""
        return self._count(INTERMEDIATE_PARTITIONS_MAX, _MAX_INT) or 256

    def _count(self, key: str, most: int) -> int | None:
        number = self.integer(key)
        if number is None or number == -1:
            return None
        if not 1 <= number <= most:
            self.reject(key, f"a number of partitions from 1 to {most:,}, or -1 for unset")
        return number

    @property
    def whole_messages(self) -> bool:
        """Return whether whole messages go through intermediate streams, for inspection, not only columns read later.

        Off unless set.
        """
        return self.boolean(INTERMEDIATE_WHOLE_MESSAGES)

    @property
    def app_mode(self) -> str:
        """``STREAM`` (default) or ``BATCH``."""
        mode = (self.text(APP_MODE) or "STREAM").upper()
        if mode not in ("STREAM", "BATCH"):
            self.reject(APP_MODE, "STREAM or BATCH")
        return mode

    @property
    def standby_replication(self) -> int:
        """Return the number of hosts that keep a task's state: 1 unless set (rule S9). More need host affinity."""
        copies = self.integer(STANDBY_REPLICATION, 1, least=1) or 1
        if copies > 1 and not self.host_affinity:
            self.reject(
                STANDBY_REPLICATION, f"1 where {self.host_affinity_key} is false: nobody would know where a copy serves"
            )
        return copies

    @property
    def host_affinity(self) -> bool:
        """Return whether tasks come back to the hosts where their state is: they do unless it is switched off."""
        return self.boolean(self.host_affinity_key or HOST_AFFINITY, True)

    @property
    def messages_shown(self) -> bool:
        """Return whether errors, reports and logs quote messages that fail: they do unless it is switched off."""
        return self.boolean(SHOW_MESSAGES, True)

    @property
    def host_affinity_key(self) -> str | None:
        """Return the key that decides about host affinity: today's name, else the one that Samza used before.

        None when neither is set.
        """
        return next((key for key in (HOST_AFFINITY, HOST_AFFINITY_BEFORE) if self.text(key) is not None), None)

    def check(self) -> None:
        """Reject every invalid value, and keys that contradict each other, before anything depends on them.

        The counts of intermediate streams are left to plans that have one (rule P3).
        """
        for name, kind in vars(Config).items():
            if isinstance(kind, property) and name not in ("intermediate_partitions", "intermediate_partitions_max"):
                getattr(self, name)
        for key in self._values:
            if _PRIORITY_KEY.fullmatch(key):
                self.integer(key)
            elif _BOOTSTRAP_KEY.fullmatch(key):
                self.boolean(key)
            elif match := _FIRST_OFFSET_KEY.fullmatch(key):
                self.first_offset(match[1])
            elif match := _STORE_LIMIT_KEY.fullmatch(key):
                self.integer(key, least=-1 if match[2] == "rocksdb.ttl.ms" else 1)
        for store in self.store_names:
            self.store_backend(store, "memory")

    @property
    def store_local_dir(self) -> str | None:
        """Return the folder for copies of state and stores on each host; ``$NAME`` is a variable of its environment.

        None: the default.
        """
        return self.text(STORE_LOCAL_DIR)

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def batch_size(self) -> int | None:
        """Return how many messages of one partition are read in a row (rule M4); None when not set."""
        return self.integer(BATCH_SIZE, least=1)

    @property
    def epoch_max_messages(self) -> int | None:
        """Return how many messages a task reads in one epoch, where its stage runs several; None when not set."""
        return self.integer(EPOCH_MAX_MESSAGES, least=1)

    @property
    def epoch_max_ms(self) -> int | None:
        """Return for how long a task reads further messages in one epoch of several; None when not set.

        What a chooser prefers comes first in every epoch, so this bounds how long it waits behind the rest.
        """
        return self.integer(EPOCH_MAX_MS, least=1)

    @property
    def chooser_class(self) -> str | None:
        """The user's own chooser factory (rule M1)."""
        return self.text(CHOOSER_CLASS)

    @property
    def waits_for_head_of_all(self) -> bool:
        """Return whether every input is read to its head before the first message is chosen (rule M3)."""
        value = self.text(CHOOSER_WAIT_FOR_HEAD)
        if value not in (None, "all"):
            self.reject(CHOOSER_WAIT_FOR_HEAD, 'the word "all", or unset')
        return value == "all"

    @property
    def watermark_idle_timeout_ms(self) -> int | None:
        """Return the ms after which an idle producer is left out of the watermark.

        None when off, as it is unless set (rule C8).
        """
        return self._milliseconds(WATERMARK_IDLE_TIMEOUT)

    # -- low-level tasks ---------------------------------------------------------------------------------------------

    @property
    def window_ms(self) -> int | None:
        """Return how often ``window()`` of a task is called, in ms; None when off, as it is unless set."""
        return self._milliseconds(TASK_WINDOW)

    @property
    def max_concurrency(self) -> int:
        """Return how many messages of an async task are in flight at most: 1 unless set."""
        return self.integer(TASK_MAX_CONCURRENCY, 1, least=1) or 1

    @property
    def callback_timeout_ms(self) -> int | None:
        """Return how long an async task may take for one message, in ms.

        None when it may take any time, as it may unless set.
        """
        return self._milliseconds(TASK_CALLBACK_TIMEOUT)

    def _milliseconds(self, key: str) -> int | None:
        """A length of time from 1 ms; -1 and absence are None."""
        number = self.integer(key)
        if number is None or number == -1:
            return None
        if number < 1:  # 0 ms would be "always", which nobody means
            self.reject(key, "a number of ms from 1, or -1 for off")
        return number

    # -- state from run to run -----------------------------------------------------------------------------------------

    @property
    def state_lease_wait_ms(self) -> int:
        """Return how long the plan of a run waits for the state of a run that has not ended.

        0 unless set, which rejects at once.
        """
        return self.integer(STATE_LEASE_WAIT, 0, least=0) or 0

    @property
    def state_lease_grace_ms(self) -> int:
        """Return how long a run that shows no sign of life, and was not closed, keeps the state to itself.

        Ten minutes unless set.
        """
        found = self.integer(STATE_LEASE_GRACE, 600_000, least=0)
        return 600_000 if found is None else found

    @property
    def state_versions_keep(self) -> int:
        """Return how many versions of the state are kept: 5 unless set.

        Two at least: a run that is planned anew starts from the former one.
        """
        return self.integer(STATE_VERSIONS_KEEP, 5, least=2) or 5

    def first_offset(self, stream: str) -> str:
        """Return where the first run of an application begins to read an unbounded input.

        ``oldest`` (default) or ``upcoming``.
        """
        key = f"streams.{stream}.samza.offset.default"
        value = self.text(key, "oldest") or "oldest"
        if value not in ("oldest", "upcoming"):
            self.reject(key, "oldest or upcoming")
        return value

    # -- stores ------------------------------------------------------------------------------------------------------

    @property
    def store_names(self) -> tuple[str, ...]:
        """The stores that the configuration names, sorted, each once."""
        found = (_STORE_KEY.fullmatch(key) for key in self._values)
        return tuple(sorted({match[1] for match in found if match is not None}))

    def side_inputs(self, store: str) -> tuple[str, ...]:
        """The side inputs of a store, ``stores.<s>.side.inputs``: ``system.stream`` or stream ids."""
        return self.listing(f"stores.{store}.side.inputs")

    def side_inputs_processor(self, store: str) -> str | None:
        """The factory of a store's side input processor, ``stores.<s>.side.inputs.processor.factory``."""
        return self.text(f"stores.{store}.side.inputs.processor.factory")

    @property
    def store_local_max_bytes(self) -> int | None:
        """Return the size limit of all tables that a host keeps, in bytes; None (no limit) unless set.

        The least recently opened is deleted first.
        """
        return self.integer(STORE_LOCAL_MAX_BYTES, None, least=1)

    def store_backend(self, store: str, default: str) -> str:
        """Return the kind of a store (``stores.<s>.factory``): ``memory`` or ``rocksdb``, or Samza's class names."""
        key = f"stores.{store}.factory"
        found = self.text(key, default) or default
        backend = _BACKENDS.get(found.rpartition(".")[2], found)
        if backend not in STORE_BACKENDS:
            self.reject(key, " or ".join(STORE_BACKENDS))
        return backend

    def store_ttl_ms(self, store: str, default: int | None) -> int | None:
        """Return an entry's time to live, ``stores.<s>.rocksdb.ttl.ms``; -1 is for ever, as in Samza."""
        found = self.integer(f"stores.{store}.rocksdb.ttl.ms", default, least=-1)
        return None if found == -1 else found

    def changelog(self, store: str) -> str | None:
        """The changelog of a store, ``stores.<s>.changelog``."""
        return self.text(f"stores.{store}.changelog")
