"""Side inputs of tables: their processor, and what the configuration says of them (rules S2, S8).

Keys of the configuration add to what the code declares, or are rejected. The application makes its tables by it, and
the tasks that fill them their processors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, runtime_checkable

from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.identifiers import parts_of
from airflow_samza.application.rejections import listed, reject
from airflow_samza.config import Config
from airflow_samza.errors import ConfigError

if TYPE_CHECKING:
    from airflow_samza.application.task_api import IncomingMessageEnvelope, KeyValueStore


@runtime_checkable
class SideInputsProcessor(Protocol):
    """A processor that turns the messages of a side input into rows of a table.

    After a crash it may get a message again.

    ```python
    class Tiers:
        def __init__(self, config, metrics):
            self.metrics = metrics

        def process(self, message, store):
            self.metrics.count("changes")
            return [(message.message.member_id, {"member_id": message.message.member_id, "tier": message.message.tier})]
    ```
    """

    def process(self, message: IncomingMessageEnvelope, store: KeyValueStore) -> Iterable[tuple[Any, Any]]:
        """Return what to write, as pairs of key and row, in order.

        The row None deletes a key. A key None is ignored and counted.

        :param message: The message, with its stream, partition and offset.
        :param store: The table as it is, to read former rows.
        """


class ConfiguredSideInputs:
    """The keys ``stores.<s>.side.inputs`` and ``….processor.factory`` for the stores of one application."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def of(self, store: str) -> tuple[str, ...]:
        """Return the side inputs of a store; none where nothing is configured."""
        return self._config.side_inputs(store)

    def factory(self, store: str) -> str | None:
        """Return the name of the factory of its processor."""
        return self._config.side_inputs_processor(store)

    def feeds(self, store: str) -> bool:
        """Return whether anything is configured for a store."""
        return bool(self.of(store)) or self.factory(store) is not None

    def processor(self, store: str, in_code: object) -> object:
        """Return the processor of a table: that of the code, else the configured one; two must be equal."""
        configured = self.factory(store)
        if configured is None or in_code is None:
            return configured if in_code is None else in_code
        name = processor_name(in_code)
        if name.replace(":", ".") != configured.replace(":", "."):
            key = _factory_key(store)
            reject(
                f"The table {store!r} has the processor {name}, and {key} is {configured!r}",
                hint="Say it once: leave processor= out, or the key.",
                kind=ConfigError,
                key=key,
                value=configured,
            )
        return in_code

    def check_same(self, store: str, streams: Sequence[StreamDescriptor]) -> None:
        """Reject other side inputs than those that the code names."""
        configured = self.of(store)
        left = [parts_of(name) for name in configured]
        for stream in streams:
            same = [
                name
                for name in left
                if name[1] == stream.stream_id and (not name[0] or stream.system in (None, name[0]))
            ]
            if same:
                left.remove(same[0])
            elif configured:
                self._differ(store, streams)
        if left:
            self._differ(store, streams)

    def _differ(self, store: str, streams: Sequence[StreamDescriptor]) -> NoReturn:
        named = listed(
            [f"{stream.system}.{stream.stream_id}" if stream.system else stream.stream_id for stream in streams]
        )
        key, value = _inputs_key(store), self._config[_inputs_key(store)]
        reject(
            f"The table {store!r} has the side inputs {named}, and {key} is {value!r}",
            hint="Declare them in one place: side_inputs= in the code, or the configuration key.",
            kind=ConfigError,
            key=key,
            value=value,
        )

    def reject_any(self, store: str, what: str, hint: str) -> None:
        """Reject whatever is configured for a store that no side inputs can feed.

        ``what`` it is begins the sentence.
        """
        for key, value in ((_inputs_key(store), self.of(store)), (_factory_key(store), self.factory(store))):
            if value:
                text = self._config[key]
                reject(f"{what}, and {key} is {text!r}", hint=hint, kind=ConfigError, key=key, value=text)

    def check_declared(self, application: str, declared: Iterable[str]) -> None:
        """Reject what is configured for a table that the application does not declare.

        Its key and columns are not known.
        """
        tables = set(declared)
        for store in self._config.store_names:
            for key, value in ((_inputs_key(store), self.of(store)), (_factory_key(store), self.factory(store))):
                if store not in tables and value:
                    text = self._config[key]
                    raise ConfigError(
                        f"{key} is {text!r}, and the application {application!r} declares no table {store!r}.",
                        hint=f'Declare it: app.table("{store}", key=…, schema=…), since a configuration does not say '
                        "what its rows are; or set the key only for the application that has it.",
                        key=key,
                        value=text,
                    )


def processor_name(processor: object) -> str:
    """Return the name of a processor's factory, as the configuration writes it: ``package.module:factory``."""
    if isinstance(processor, str):
        return processor
    return f"{processor.__module__}:{getattr(processor, '__qualname__', type(processor).__qualname__)}"


def _inputs_key(store: str) -> str:
    return f"stores.{store}.side.inputs"


def _factory_key(store: str) -> str:
    return f"stores.{store}.side.inputs.processor.factory"
