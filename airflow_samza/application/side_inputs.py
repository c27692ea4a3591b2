"""The processor of side inputs, which turns the messages of a stream into rows of a table (rules S2, S8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from airflow_samza.application.configured_side_inputs import processor_name
from airflow_samza.application.descriptors import TableKind

if TYPE_CHECKING:
    from airflow_samza.application.application import ApplicationSpec
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
        ...


def side_input_config(spec: ApplicationSpec) -> dict[str, str]:
    """Return the side inputs of the descriptors as configuration keys (rule S8).

    The same keys that a user would write by hand.
    """
    keys: dict[str, str] = {}
    streams: list[str] = []
    for table in spec.tables.values():
        if table.kind is not TableKind.PUSHED:
            continue
        names = []
        for stream_id in table.side_inputs:
            system = spec.system_of(spec.side_inputs[stream_id])
            names.append(f"{system}.{stream_id}" if system else stream_id)
        keys[f"stores.{table.table_id}.side.inputs"] = ",".join(names)
        if table.processor is not None:
            keys[f"stores.{table.table_id}.side.inputs.processor.factory"] = processor_name(table.processor)
        streams.extend(name for name in names if name not in streams)
    if streams:
        inputs = [part.strip() for part in spec.config.get("task.inputs", "").split(",") if part.strip()]
        keys["task.inputs"] = ",".join([*inputs, *(name for name in streams if name not in inputs)])
    return keys
