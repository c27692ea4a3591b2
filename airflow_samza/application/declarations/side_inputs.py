"""Side inputs of tables: their processor, and what the configuration says of them (rules S2, S8).

Keys of the configuration add to what the code declares, or are rejected. The application makes its tables by it, and
the tasks that fill them their processors.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, runtime_checkable

from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.operator_checks import parts_of
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


def configured_keys(config: Config, store: str) -> list[str]:
    """Return the keys ``stores.<s>.side.inputs`` and ``….processor.factory`` that are set for a store."""
    inputs, factory = config.side_inputs(store), config.side_inputs_processor(store)
    return [key for key, value in ((_inputs_key(store), inputs), (_factory_key(store), factory)) if value]


def chosen_processor(config: Config, store: str, in_code: object) -> object:
    """Return the processor of a table: that of the code, else the configured one; two must be equal."""
    configured = config.side_inputs_processor(store)
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


def check_same(config: Config, store: str, streams: Sequence[StreamDescriptor]) -> None:
    """Reject other side inputs than those that the code names, where some are configured."""
    configured = config.side_inputs(store)
    left = [parts_of(name) for name in configured]
    for stream in streams if configured else ():
        same = [
            name for name in left if name[1] == stream.stream_id and (not name[0] or stream.system in (None, name[0]))
        ]
        if not same:
            _differ(config, store, streams)
        left.remove(same[0])
    if left:
        _differ(config, store, streams)


def _differ(config: Config, store: str, streams: Sequence[StreamDescriptor]) -> NoReturn:
    named = listed([f"{stream.system}.{stream.stream_id}" if stream.system else stream.stream_id for stream in streams])
    key, value = _inputs_key(store), config[_inputs_key(store)]
    reject(
        f"The table {store!r} has the side inputs {named}, and {key} is {value!r}",
        hint="Declare them in one place: side_inputs= in the code, or the configuration key.",
        kind=ConfigError,
        key=key,
        value=value,
    )


def reject_configured(config: Config, store: str, what: str, hint: str) -> None:
    """Reject whatever is configured for a store that no side inputs can feed.

    ``what`` it is begins the sentence.
    """
    for key in configured_keys(config, store):
        reject(f"{what}, and {key} is {config[key]!r}", hint=hint, kind=ConfigError, key=key, value=config[key])


def check_declared(config: Config, application: str, declared: Container[str]) -> None:
    """Reject what is configured for a table that the application does not declare.

    Its key and columns are not known.
    """
    for store in config.store_names:
        for key in () if store in declared else configured_keys(config, store):
            raise ConfigError(
                f"{key} is {config[key]!r}, and the application {application!r} declares no table {store!r}.",
                hint=f'Declare it: app.table("{store}", key=…, schema=…), since a configuration does not say '
                "what its rows are; or set the key only for the application that has it.",
                key=key,
                value=config[key],
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
