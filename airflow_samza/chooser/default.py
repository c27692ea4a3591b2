"""The chooser of an application: head gate, batches and priorities, around round robin or the user's own.

The layers stand around any chooser (decision 23). The gate, because the design document has it in front of ``choose``
itself ("only call choose if …"). Priorities and batches, because its default chooser is made of them, and leaves to the
chooser inside which of several streams of equal priority is next. The run loop of a task asks it which message is next.

Source: message-chooser, "DefaultChooser"; rules M1–M4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.application.rejections import imported
from airflow_samza.chooser.alignment import RoundRobinChooser
from airflow_samza.chooser.batching import BatchingChooser, HeldBatches
from airflow_samza.chooser.bootstrapping import BootstrappingChooser, HeadGate
from airflow_samza.chooser.message_chooser import MessageChooser, OrderedChooser, Partition, PartitionHead, stream_name
from airflow_samza.chooser.settings import ChooserSettings
from airflow_samza.chooser.tiered_priority import PriorityTiers, TieredPriorityChooser
from airflow_samza.config import CHOOSER_CLASS, Config
from airflow_samza.errors import ConfigError


@dataclass(frozen=True)
class ChooserContext:
    """The arguments of a factory of choosers.

    ``heads`` are those of the partitions at start, fetched in one call per system; ``newest`` are those of now, in a
    later epoch of a run that goes on (None: as at start). The gate, priorities and batches that ``settings`` ask for
    stand around what the factory makes. ``time_of`` gives the time of an envelope's first message
    in ms (None: it has none), where the application has event time. ``is_gated`` says of further partitions, such as
    those of side inputs, that they have to reach their heads first.
    """

    settings: ChooserSettings = field(default_factory=ChooserSettings)
    config: Config = field(default_factory=Config)
    heads: Mapping[Any, PartitionHead] = field(default_factory=dict)
    time_of: Callable[[Any], int | None] | None = None
    is_gated: Callable[[Partition], bool] | None = None
    newest: Mapping[Any, PartitionHead] | None = None

    @property
    def current_heads(self) -> Mapping[Any, PartitionHead]:
        """Return the heads as of now."""
        return self.heads if self.newest is None else self.newest


def looks_at_messages(config: Config) -> bool:
    """Return whether the application names a chooser of its own, which may read any column of a message."""
    name = config.chooser_class
    return name is not None and not name.startswith(f"{__package__}.")


ChooserFactory = Callable[[ChooserContext], MessageChooser[Any]]
"""A function that ``task.chooser.class`` names: from a context to a chooser, called once per priority in effect."""


def _round_robin(context: ChooserContext) -> RoundRobinChooser[Any]:
    return RoundRobinChooser()


def layered(context: ChooserContext, factory: ChooserFactory = _round_robin) -> HeadGate[Any]:
    """Wrap the choosers that ``factory`` makes, one per priority in effect and 0, in priorities, batches and head gate.

    If that can tell what comes next (:class:`OrderedChooser`), so can the whole.
    """
    settings = context.settings
    priorities = {stream: settings.priority(stream) for stream in {*settings.priorities, *settings.bootstrap}}
    tiers = {priority: factory(context) for priority in sorted({0, *priorities.values()}, reverse=True)}

    def priority_of(ssp: Partition) -> int:
        return settings.priority(stream_name(ssp))

    def is_gated(ssp: Partition) -> bool:
        return settings.waits_for(stream_name(ssp)) or (context.is_gated is not None and context.is_gated(ssp))

    ordered = {priority: tier for priority, tier in tiers.items() if isinstance(tier, OrderedChooser)}
    if len(ordered) == len(tiers):
        chooser: OrderedChooser[Any] = TieredPriorityChooser(priorities, ordered, ordered[0])
        if settings.batch_size is not None:
            chooser = BatchingChooser(chooser, settings.batch_size, priority_of)
        return BootstrappingChooser(chooser, context.heads, is_gated)
    plain: PriorityTiers[Any] = PriorityTiers(priorities, tiers, tiers[0])
    inner: MessageChooser[Any] = plain if settings.batch_size is None else HeldBatches(plain, settings.batch_size)
    return HeadGate(inner, context.heads, is_gated)


def make_chooser(context: ChooserContext) -> HeadGate[Any]:
    """The chooser of an application.

    The configured layers around what ``task.chooser.class`` makes, or round robin where it is not set.

    The key names a class or function, ``package.module:attribute`` or ``package.module.Attribute``, that takes a
    :class:`ChooserContext`. A name that leads nowhere, and a result that is no chooser, are a ConfigError.
    """
    name = context.settings.factory
    if name is None:
        return layered(context)
    factory = _factory(name)

    def checked_chooser(inner: ChooserContext) -> MessageChooser[Any]:
        chooser = factory(inner)
        if not isinstance(chooser, MessageChooser):
            raise _rejected(
                name,
                f"makes a {type(chooser).__name__}, which is no chooser",
                "It needs start, stop, register, update and choose.",
            )
        return chooser

    return layered(context, checked_chooser)


def check_chooser(config: Config) -> None:
    """Reject a ``task.chooser.class`` that names nothing, before anything runs."""
    if config.chooser_class is not None:
        _factory(config.chooser_class)


def _factory(name: str) -> Callable[[ChooserContext], object]:
    factory = imported(name, CHOOSER_CLASS, key=CHOOSER_CLASS)
    if not callable(factory):
        raise _rejected(name, "cannot be called", "Name a class or a function that takes a ChooserContext.")
    return factory  # type: ignore[no-any-return]  # what it makes is looked at


def _rejected(name: str, what: str, hint: str) -> ConfigError:
    return ConfigError(f"{CHOOSER_CLASS} is {name!r}, which {what}.", hint=hint, key=CHOOSER_CLASS, value=name)
