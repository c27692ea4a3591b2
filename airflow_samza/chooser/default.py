"""The default chooser: head gate around batches around priorities around round robin, as configured; or the user's own.

Source: message-chooser, "DefaultChooser"; SEMANTICS M1–M4.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.chooser.batching import BatchingChooser
from airflow_samza.chooser.bootstrapping import BootstrappingChooser
from airflow_samza.chooser.message_chooser import MessageChooser, OrderedChooser, Partition, stream_name
from airflow_samza.chooser.offsets import OffsetOrders, PartitionHead
from airflow_samza.chooser.round_robin import RoundRobinChooser
from airflow_samza.chooser.settings import ChooserSettings
from airflow_samza.chooser.tiered_priority import TieredPriorityChooser
from airflow_samza.config import CHOOSER_CLASS, Config
from airflow_samza.errors import ConfigError


@dataclass(frozen=True)
class ChooserContext:
    """What a factory of choosers gets to know.

    ``heads`` are those of the partitions at start, fetched in one call per system. ``time_of`` gives the time of an envelope's first
    message in ms (None: it has none), where the application has event time. ``is_gated`` says of further partitions, such as those of side
    inputs, that they have to reach their heads first.
    """

    settings: ChooserSettings = field(default_factory=ChooserSettings)
    config: Config = field(default_factory=Config)
    heads: Mapping[Any, PartitionHead] = field(default_factory=dict)
    orders: OffsetOrders = field(default_factory=OffsetOrders)
    time_of: Callable[[Any], int | None] | None = None
    is_gated: Callable[[Partition], bool] | None = None


ChooserFactory = Callable[[ChooserContext], MessageChooser[Any]]
"""What ``task.chooser.class`` names: gets the context, returns a chooser."""


def prioritised(settings: ChooserSettings) -> TieredPriorityChooser[Any]:
    """Tiers of the priorities in effect, round robin within each; streams without one are in the tier of 0."""
    priorities = {stream: settings.priority(stream) for stream in {*settings.priorities, *settings.bootstrap}}
    default: RoundRobinChooser[Any] = RoundRobinChooser()
    tiers: dict[int, OrderedChooser[Any]] = {priority: RoundRobinChooser() for priority in priorities.values()}
    tiers[0] = default
    return TieredPriorityChooser(priorities, tiers, default)


def default_chooser(context: ChooserContext) -> BootstrappingChooser[Any]:
    """The chooser that an application has unless it names another."""
    settings = context.settings
    chooser: OrderedChooser[Any] = prioritised(settings)
    if settings.batch_size is not None:
        chooser = BatchingChooser(chooser, settings.batch_size, lambda ssp: settings.priority(stream_name(ssp)))

    def is_gated(ssp: Partition) -> bool:
        return settings.waits_for(stream_name(ssp)) or (context.is_gated is not None and context.is_gated(ssp))

    return BootstrappingChooser(chooser, context.heads, is_gated, context.orders)


def make_chooser(context: ChooserContext) -> MessageChooser[Any]:
    """The chooser of an application: what ``task.chooser.class`` makes, and the default one where it is not set.

    The key names a class or function, ``package.module:attribute`` or ``package.module.Attribute``, that takes a :class:`ChooserContext`.
    A name that leads nowhere, and a result that is no chooser, are a ConfigError.
    """
    name = context.settings.factory
    if name is None:
        return default_chooser(context)
    chooser = _factory(name)(context)
    if not isinstance(chooser, MessageChooser):
        raise _refused(name, f"makes a {type(chooser).__name__}, which is no chooser", "It needs start, stop, register, update and choose.")
    return chooser


def _factory(name: str) -> Callable[[ChooserContext], object]:
    module_name, colon, attributes = name.partition(":")
    if not colon:
        module_name, _, attributes = name.rpartition(".")
    if not module_name or not attributes:
        raise _refused(name, "names no factory", 'Write "package.module:attribute".')
    try:
        found: object = importlib.import_module(module_name)
    except ImportError as error:
        raise _refused(name, f"cannot be imported: {error}", "Put its folder on the Python path, or correct the name.") from error
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise _refused(name, f"is not there: {module_name!r} has no {attributes!r}", "Correct the name.")
        found = getattr(found, attribute)
    if not callable(found):
        raise _refused(name, "cannot be called", "Name a class or a function that takes a ChooserContext.")
    return found


def _refused(name: str, what: str, hint: str) -> ConfigError:
    return ConfigError(f"{CHOOSER_CLASS} is {name!r}, which {what}.", hint=hint, key=CHOOSER_CLASS, value=name)
