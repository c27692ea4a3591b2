"""The built-in choosers by name, for ``task.chooser.class``.

``airflow_samza.chooser.factories:time_aligned`` and so on.

Each chooses among streams of equal priority. The head gate, priorities and batches that are configured stand around it,
as around any chooser, so those that are named after one of these layers are round robin inside.

Source: rules M1, M2.
"""

from __future__ import annotations

from typing import Any

from airflow_samza.chooser import alignment
from airflow_samza.chooser.alignment import AlignmentChooser, RoundRobinChooser, StartingAlignmentChooser
from airflow_samza.chooser.default import ChooserContext
from airflow_samza.config import BATCH_SIZE, CHOOSER_CLASS
from airflow_samza.errors import ConfigError


def default(context: ChooserContext) -> RoundRobinChooser[Any]:
    """Head gate, batches, priorities and round robin, as configured."""
    return RoundRobinChooser()


def round_robin(context: ChooserContext) -> RoundRobinChooser[Any]:
    """Round the partitions."""
    return RoundRobinChooser()


def tiered_priority(context: ChooserContext) -> RoundRobinChooser[Any]:
    """By priority."""
    return RoundRobinChooser()


def bootstrapping(context: ChooserContext) -> RoundRobinChooser[Any]:
    """The head gate around round robin."""
    return RoundRobinChooser()


def batching(context: ChooserContext) -> RoundRobinChooser[Any]:
    """Batches around round robin; ``task.consumer.batch.size`` has to be set."""
    if context.settings.batch_size is None:
        raise ConfigError(
            f"{BATCH_SIZE} is not set, and the batching chooser needs it.",
            hint="Set it to a whole number from 1.",
            key=BATCH_SIZE,
        )
    return RoundRobinChooser()


def time_aligned(context: ChooserContext) -> AlignmentChooser[Any]:
    """The earliest message first; the application needs event time."""
    if context.time_of is None:
        raise ConfigError(
            "The time-aligned chooser needs the time of messages, and the inputs have none.",
            hint=f"Say where event time comes from, or take another {CHOOSER_CLASS}.",
            key=CHOOSER_CLASS,
        )
    return AlignmentChooser(context.time_of)


def offset_aligned(context: ChooserContext) -> AlignmentChooser[Any]:
    """The lowest offset first."""
    return alignment.offset_aligned()


def messages_behind_head(context: ChooserContext) -> AlignmentChooser[Any]:
    """The partition first that is most messages behind its head."""
    return alignment.messages_behind_head(alignment.behind_heads(context.current_heads))


def percent_behind_head(context: ChooserContext) -> AlignmentChooser[Any]:
    """The partition first of which the greatest share is still to be read."""
    return alignment.percent_behind_head(
        alignment.behind_heads(context.current_heads), alignment.sizes(context.current_heads)
    )


def starting_alignment(context: ChooserContext) -> StartingAlignmentChooser[Any]:
    """Keeps the distances from the heads that the partitions started with."""
    heads = context.current_heads
    return StartingAlignmentChooser(alignment.behind_heads(heads), alignment.behind_at_start(heads))
