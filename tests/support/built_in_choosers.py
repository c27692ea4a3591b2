"""The names of all choosers that there are, as ``airflow_samza.chooser.factories`` has them."""

from __future__ import annotations

BUILT_IN = [
    "default",
    "round_robin",
    "tiered_priority",
    "bootstrapping",
    "batching",
    "time_aligned",
    "offset_aligned",
    "messages_behind_head",
    "percent_behind_head",
    "starting_alignment",
]
