"""Typed reading of Samza's configuration keys. Keys keep Samza's spelling; values come as texts.

Each reader says what a key means, with unit and ``Default: …``, which the reference shows; it raises
:class:`~airflow_samza.errors.ConfigError` with the key, the value and where it came from.

Used wherever behaviour is configured: in the application, the planner, the plan step and the stage runner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from airflow_samza.errors import ConfigError

HOST_AFFINITY = "job.host-affinity.enabled"
SHOW_MESSAGES = "job.messages.shown"
INPUTS_BOUNDED = "job.inputs.bounded"
INPUTS_FLUSH = "job.inputs.flush"
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
DRIVER_MAX_MESSAGES = "job.driver.max.messages"
EPOCH_MAX_MESSAGES = "job.epoch.max.messages"
EPOCH_MAX_MS = "job.epoch.max.ms"
EPOCH_MIN_MS = "job.epoch.min.ms"
WATERMARK_IDLE_TIMEOUT = "task.watermark.idle.timeout.ms"

MAX_PARTITIONS = 65_536
"""The largest count of partitions that a stream may have (rule P3)."""

_MAX_INT = 2**31 - 1
_MAX_LONG = 2**63 - 1

_COUNT = "a number of partitions from 1 to {most:,}, or -1 for unset"
_MILLISECONDS = "a number of ms from 1, or -1 for off"  # 0 ms would be "always", which nobody means

_STORE_KEY = re.compile(r"stores\.(.+?)\.(side\.inputs\.processor\.factory|side\.inputs|factory|changelog)")
"""The longer ending first: both ``side.inputs.processor.factory`` and ``factory`` end alike (rule S8)."""

_STORE_LIMIT_KEY = re.compile(r"stores\.(.+?)\.(rocksdb\.ttl\.ms|max\.key\.bytes|max\.value\.bytes|max\.bytes)")
_PRIORITY_KEY = re.compile(r"task\.chooser\.priorities\..+|(?:systems\..+\.)?streams\..+\.samza\.priority")
_BOOTSTRAP_KEY = re.compile(r"(?:systems\..+\.)?streams\..+\.samza\.bootstrap")
_BOUNDED_KEY = re.compile(r"streams\.(.+)\.samza\.bounded")
_FIRST_OFFSET_KEY = re.compile(r"streams\.(.+)\.samza\.offset\.default")

_FOR_OPERATION = (
    SHOW_MESSAGES,
    HOST_AFFINITY,
    STANDBY_REPLICATION,
    "job.store.local.",
    "job.state.",
    "job.epoch.",
    DRIVER_MAX_MESSAGES,
    TASK_CALLBACK_TIMEOUT,
    TASK_MAX_CONCURRENCY,
)
"""The beginnings of keys on which no result depends: places, times to wait, sizes of epochs."""

_OF_SAMZA = (APP_MODE, "job.", "task.", "stores.", "streams.", "systems.", "yarn.")
"""The beginnings of keys that say how an application runs; all others are its own, which only its code reads."""

STORE_BACKENDS = ("memory", "rocksdb")
"""Kinds of stores; :mod:`airflow_samza.storage.backends` makes them."""

_BACKENDS = {"RocksDbKeyValueStorageEngineFactory": "rocksdb", "InMemoryKeyValueStorageEngineFactory": "memory"}


def is_for_operation(key: str) -> bool:
    """Return whether neither a plan nor a result of a stage depends on a key: it is about places, times and sizes.

    >>> is_for_operation("job.epoch.max.ms"), is_for_operation("task.chooser.class"), is_for_operation("my.threshold")
    (True, False, False)
    """
    return key.startswith(_FOR_OPERATION)


def own_keys(config: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that are an application's own.

    >>> own_keys({"job.epoch.max.ms": "100", "region": "nl"})
    {'region': 'nl'}
    """
    return {key: value for key, value in config.items() if not key.startswith(_OF_SAMZA)}


class Config(Mapping[str, str]):
    """Configuration keys and values, and ``source``: where they came from, for error messages.

    >>> Config({"job.intermediate.stream.partitions": "16"}).intermediate_partitions
    16
    """

    def __init__(
        self, values: Mapping[str, Any] | None = None, source: str = "the application's configuration"
    ) -> None:
        self.source = source
        # None unsets a key, as an absent one
        self._values = {str(key): str(value) for key, value in (values or {}).items() if value is not None}

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Config({len(self)} keys from {self.source})"  # never the values: they may be secrets

    def reject(self, key: str, allowed: str) -> NoReturn:
        """Raise :class:`ConfigError` for a key's value; ``allowed`` says what it has to be."""
        value = self._values.get(key)
        raise ConfigError(
            f"{key} is {value!r} in {self.source}, which is not valid.",
            hint=f"Write {allowed}.",
            key=key,
            value=value,
            source=self.source,
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
        allowed = "a whole number" + ("" if least is None else f" from {least}")
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            self.reject(key, allowed)
        if (
            len(text.lstrip("+-").lstrip("0")) > len(str(_MAX_LONG))
            or not -_MAX_LONG - 1 <= (number := int(text)) <= _MAX_LONG
        ):
            self.reject(key, f"{allowed} that fits into 64 bits")
        if least is not None and number < least:
            self.reject(key, allowed)
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
        """Return the partition count of intermediate streams that nothing else decides; -1: unset (rule P3).

        At most 65,536. Default: the largest count of inputs and outputs, at most the cap
        """
        return self._from_one(INTERMEDIATE_PARTITIONS, _COUNT, MAX_PARTITIONS)

    @property
    def intermediate_partitions_max(self) -> int:
        """Return the cap on partition counts that the planner infers (rule P2).

        Default: 256
        """
        return self._from_one(INTERMEDIATE_PARTITIONS_MAX, _COUNT, _MAX_INT) or 256

    def _from_one(self, key: str, allowed: str, most: int = _MAX_LONG) -> int | None:
        """A number from 1; -1 and absence are None."""
        number = self.integer(key)
        if number is None or number == -1:
            return None
        if not 1 <= number <= most:
            self.reject(key, allowed.format(most=most))
        return number

    @property
    def whole_messages(self) -> bool:
        """Return whether whole messages go through intermediate streams, not only the columns that are read later.

        Default: false
        """
        return self.boolean(INTERMEDIATE_WHOLE_MESSAGES)

    @property
    def app_mode(self) -> str:
        """Return the mode of the application, ``STREAM`` or ``BATCH``.

        ``BATCH`` rejects host affinity that is switched on; nothing else depends on it. Default: STREAM
        """
        mode = (self.text(APP_MODE) or "STREAM").upper()
        if mode not in ("STREAM", "BATCH"):
            self.reject(APP_MODE, "STREAM or BATCH")
        return mode

    @property
    def messages_shown(self) -> bool:
        """Return whether errors, reports and logs quote the messages that fail.

        Default: true
        """
        return self.boolean(SHOW_MESSAGES, True)

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
            elif _BOOTSTRAP_KEY.fullmatch(key) or _BOUNDED_KEY.fullmatch(key):
                self.boolean(key)
            elif match := _FIRST_OFFSET_KEY.fullmatch(key):
                self.first_offset(match[1])
            elif match := _STORE_LIMIT_KEY.fullmatch(key):
                self.integer(key, least=-1 if match[2] == "rocksdb.ttl.ms" else 1)
        for store in self.store_names:
            self.store_backend(store, "memory")

    # -- hosts --------------------------------------------------------------------------------------------------------

    @property
    def standby_replication(self) -> int:
        """Return the number of hosts that keep the state of each task (rule S9); more than 1 needs host affinity.

        Default: 1
        """
        copies = self.integer(STANDBY_REPLICATION, 1, least=1) or 1
        if copies > 1 and not self.host_affinity:
            self.reject(
                STANDBY_REPLICATION,
                f"1, or set {self.host_affinity_key} to true: without host affinity no task finds a copy",
            )
        return copies

    @property
    def host_affinity(self) -> bool:
        """Return whether tasks run where their state is; otherwise any executor runs any task, without copies on hosts.

        ``yarn.samza.host-affinity.enabled``, Samza's former name, counts where this key is not set. Default: true
        """
        return self.boolean(self.host_affinity_key or HOST_AFFINITY, True)

    @property
    def host_affinity_key(self) -> str | None:
        """Return the key that decides about host affinity: today's name, else the one that Samza used before.

        None when neither is set.
        """
        return next((key for key in (HOST_AFFINITY, HOST_AFFINITY_BEFORE) if self.text(key) is not None), None)

    @property
    def store_local_dir(self) -> str | None:
        """Return the folder of each host for copies of state and stores.

        ``$NAME`` in it is replaced from the host's environment. Default: a folder of the user in the host's folder for
        temporary files
        """
        return self.text(STORE_LOCAL_DIR)

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def batch_size(self) -> int | None:
        """Return the number of messages of one partition that are read in a row (rule M4).

        Default: no batches
        """
        return self.integer(BATCH_SIZE, least=1)

    @property
    def driver_max_messages(self) -> int:
        """Return the number of messages up to which an epoch runs beside the driver of a local master, without a job.

        As many processes run its tasks as the master has cores. Spark's job takes a tenth of a second longer, and
        Spark's start seconds. Of files and tables 32 bytes count as a message. 0: every epoch is a Spark job. Default:
        10,000,000
        """
        most = self.integer(DRIVER_MAX_MESSAGES, least=0)
        return 10_000_000 if most is None else most

    @property
    def epoch_max_messages(self) -> int | None:
        """Return the greatest number of messages that a task reads in one epoch, where its stage runs several.

        Default: 1,000,000
        """
        return self.integer(EPOCH_MAX_MESSAGES, least=1)

    @property
    def epoch_max_ms(self) -> int | None:
        """Return the ms after which a task reads no more messages in an epoch, where its stage runs several.

        Messages that the chooser prefers come first in every epoch, so this bounds how long they wait. Default: no
        limit
        """
        return self.integer(EPOCH_MAX_MS, least=1)

    @property
    def epoch_min_ms(self) -> int | None:
        """Return the ms between the beginnings of two epochs, for which messages are gathered, in stages of several.

        A stage that is behind, or whose inputs have ended, waits for nothing. Default: 1,000 where a stage writes a
        table of a lake, which gets a commit an epoch, else 0
        """
        return self.integer(EPOCH_MIN_MS, least=0)

    @property
    def chooser_class(self) -> str | None:
        """Return the name ``package.module:factory`` of the chooser factory (rule M1).

        Default: partitions in turn
        """
        return self.text(CHOOSER_CLASS)

    @property
    def waits_for_head_of_all(self) -> bool:
        """Return True for ``all``: every input is read to its head before the first message is chosen (rule M3).

        Default: unset
        """
        value = self.text(CHOOSER_WAIT_FOR_HEAD)
        if value not in (None, "all"):
            self.reject(CHOOSER_WAIT_FOR_HEAD, 'the word "all", or unset')
        return value == "all"

    @property
    def watermark_idle_timeout_ms(self) -> int | None:
        """Return the ms after which a silent producer or input no longer holds back the watermark; -1: never (rule C8).

        Default: -1
        """
        return self._from_one(WATERMARK_IDLE_TIMEOUT, _MILLISECONDS)

    # -- low-level tasks ---------------------------------------------------------------------------------------------

    @property
    def window_ms(self) -> int | None:
        """Return the ms between two calls of ``window()`` of a low-level task; -1: never.

        A task with ``window()`` needs it. Default: none
        """
        return self._from_one(TASK_WINDOW, _MILLISECONDS)

    @property
    def max_concurrency(self) -> int:
        """Return the greatest number of messages that an ``AsyncStreamTask`` has in flight, in each task.

        Default: 1
        """
        return self.integer(TASK_MAX_CONCURRENCY, 1, least=1) or 1

    @property
    def callback_timeout_ms(self) -> int | None:
        """Return the longest time that an ``AsyncStreamTask`` may take for one message, in ms; -1: no limit.

        Default: -1
        """
        return self._from_one(TASK_CALLBACK_TIMEOUT, _MILLISECONDS)

    # -- state from run to run -----------------------------------------------------------------------------------------

    @property
    def state_lease_wait_ms(self) -> int:
        """Return the ms for which a plan waits for the state of a run that has not ended; 0: it fails at once.

        In Airflow the plan task waits, deferred, in place of this (``wait_for_state``). It also waits so long for the
        sections of shared streams that it reads (in Airflow 600000, if a run follows one). Default: 0
        """
        return self.integer(STATE_LEASE_WAIT, 0, least=0) or 0

    @property
    def state_lease_grace_ms(self) -> int:
        """Return the ms for which a silent run that was not closed keeps the state to itself.

        Default: 600,000 (ten minutes)
        """
        grace = self.integer(STATE_LEASE_GRACE, 600_000, least=0)
        return 600_000 if grace is None else grace

    @property
    def state_versions_keep(self) -> int:
        """Return the number of versions of the state that are kept, at least 2.

        Default: 5
        """
        return self.integer(STATE_VERSIONS_KEEP, 5, least=2) or 5

    def bounded_streams(self) -> tuple[str, ...]:
        """The streams of which the configuration says by their own keys whether they are bounded."""
        matches = (_BOUNDED_KEY.fullmatch(key) for key in self._values)
        return tuple(sorted(match[1] for match in matches if match is not None))

    def bounded(self, stream: str) -> bool | None:
        """Return whether an input is bounded whose declaration leaves ``bounded`` out.

        Default: ``job.inputs.bounded``
        """
        key = f"streams.{stream}.samza.bounded"
        return self.boolean(key) if self.text(key) is not None else self.inputs_bounded

    @property
    def inputs_bounded(self) -> bool | None:
        """Return whether inputs are bounded whose declarations leave ``bounded`` out.

        A run reads a bounded one to its end, of an unbounded one what arrived since the last run, as with
        ``slice="checkpoint"``. Default: true, with ``slice="checkpoint"`` false
        """
        return None if self.text(INPUTS_BOUNDED) is None else self.boolean(INPUTS_BOUNDED)

    @property
    def inputs_flush(self) -> bool:
        """Return whether the end of the input range of an unbounded input flushes windows, joins and aggregations.

        They emit what they hold, once, and the next run begins behind it with empty ones. Default: false
        """
        return self.boolean(INPUTS_FLUSH)

    def first_offset(self, stream: str) -> str:
        """Return the offset at which the first run begins to read an unbounded input: ``oldest`` or ``upcoming``.

        Default: oldest
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
        matches = (_STORE_KEY.fullmatch(key) for key in self._values)
        return tuple(sorted({match[1] for match in matches if match is not None}))

    def side_inputs(self, store: str) -> tuple[str, ...]:
        """Return the side inputs of a table: stream ids, or ``system.stream``, with commas between them (rule S8).

        Default: those of the application
        """
        return self.listing(f"stores.{store}.side.inputs")

    def side_inputs_processor(self, store: str) -> str | None:
        """Return the factory of the processor of a table's side inputs, as ``package.module:factory`` (rule S8).

        Default: that of the application
        """
        return self.text(f"stores.{store}.side.inputs.processor.factory")

    @property
    def store_local_max_bytes(self) -> int | None:
        """Return the greatest size of all tables that a host keeps, in bytes.

        The least recently opened is deleted first. Default: no limit
        """
        return self.integer(STORE_LOCAL_MAX_BYTES, None, least=1)

    def store_backend(self, store: str, default: str) -> str:
        """Return the backend of a store: ``memory``, ``rocksdb``, or the name of Samza's class.

        Default: that of the application
        """
        key = f"stores.{store}.factory"
        name = self.text(key, default) or default
        backend = _BACKENDS.get(name.rpartition(".")[2], name)
        if backend not in STORE_BACKENDS:
            self.reject(key, " or ".join(STORE_BACKENDS))
        return backend

    def store_ttl_ms(self, store: str, default: int | None) -> int | None:
        """Return the ms for which an entry of a store is kept after it was written; -1: for ever.

        Default: that of the application
        """
        ttl = self.integer(f"stores.{store}.rocksdb.ttl.ms", default, least=-1)
        return None if ttl == -1 else ttl

    def changelog(self, store: str) -> str | None:
        """Return the stream to which ``send_to`` also writes the rows of a local table: ``system.stream``.

        Default: that of the application
        """
        return self.text(f"stores.{store}.changelog")
