"""Merges: all messages of several streams of one schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_samza.application.operator_specs import MergeSpec
from airflow_samza.application.output_schemas import merged_schema
from airflow_samza.application.rejections import reject
from airflow_samza.application.stream import Stream


def merge(streams: Sequence[Stream[Any]], id: str | None) -> MergeSpec:
    """Return the merge of ``streams``, the first of which is the one that the user called it on."""
    first = streams[0]
    if len(streams) == 1:
        reject("merge names no other stream", hint="Give the streams: views.merge(clicks).", operator="merge")
    for place, other in enumerate(streams):
        first._check_stream(other, "merge")
        if any(other is former for former in streams[:place]):
            reject(
                f"merge names {other!r} twice, which would double its messages",
                hint="Name each stream once.",
                operator="merge",
            )
    shape = merged_schema([stream.schema for stream in streams], "merge")
    return first._graph.add(MergeSpec, id, inputs=tuple(stream._operator for stream in streams), schema=shape)
