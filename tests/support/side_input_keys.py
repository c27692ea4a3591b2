"""The configuration keys that say what the descriptors of an application say of side inputs (rule S8)."""

from __future__ import annotations

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.declarations.side_inputs import processor_name
from airflow_samza.application.descriptors import TableKind


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
            system = spec.side_inputs[stream_id].system or spec.default_system
            names.append(f"{system}.{stream_id}" if system else stream_id)
        keys[f"stores.{table.table_id}.side.inputs"] = ",".join(names)
        if table.processor is not None:
            keys[f"stores.{table.table_id}.side.inputs.processor.factory"] = processor_name(table.processor)
        streams.extend(name for name in names if name not in streams)
    if streams:
        inputs = [part.strip() for part in spec.config.get("task.inputs", "").split(",") if part.strip()]
        keys["task.inputs"] = ",".join([*inputs, *(name for name in streams if name not in inputs)])
    return keys
