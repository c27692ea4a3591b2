"""The chooser by priority: one chooser per priority; the highest that has an envelope goes first.

Source: message-chooser, "task.chooser.priorities"; rule M4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, cast

from airflow_samza.chooser.message_chooser import (
    E,
    MessageChooser,
    OrderedChooser,
    Partition,
    restore_chooser,
    snapshot_of,
    stream_name,
)
from airflow_samza.errors import ConfigError


class MissingTier(ConfigError):
    """Error for a stream whose priority has no chooser (facts: ``stream``, ``priority``)."""

    rule = "missing-tier"


class NoTiers(ConfigError):
    """Error for settings with neither priorities nor a chooser for streams without one."""

    rule = "null-chooser"


class NoDefaultTier(ConfigError):
    """Error for a stream without a priority where no chooser takes such streams (facts: ``stream``)."""

    rule = "no-default"


class PriorityTiers(Generic[E]):
    """Chooses from the tier of the highest priority that has something to choose.

    ``priorities`` maps ``system.stream`` to a priority (higher is first), ``tiers`` a priority to its chooser. Streams
    that have none go to ``default``, which comes last; a tier may be the default at the same time, and keeps its place
    then.
    """

    def __init__(
        self, priorities: Mapping[str, int], tiers: Mapping[int, MessageChooser[E]], default: MessageChooser[E] | None
    ) -> None:
        if not priorities and default is None:
            raise NoTiers("There are no priorities, and no chooser for streams without one.", hint="Give either.")
        for stream, priority in priorities.items():
            if priority not in tiers:
                raise MissingTier(
                    f"Stream {stream!r} has priority {priority}, for which there is no chooser.",
                    hint=f"Give a chooser for it; there are choosers for {sorted(tiers)}.",
                    stream=stream,
                    priority=priority,
                )
        self._of_stream = {stream: tiers[priority] for stream, priority in priorities.items()}
        self._default = default
        ordered = [tiers[priority] for priority in sorted(tiers, reverse=True)]
        ordered += [] if default is None else [default]
        self._tiers = list({id(tier): tier for tier in ordered}.values())  # each once, where it first stands

    def start(self) -> None:
        """Start the choosers behind this one."""
        for tier in self._tiers:
            tier.start()

    def stop(self) -> None:
        """Stop the choosers behind this one."""
        for tier in self._tiers:
            tier.stop()

    def register(self, ssp: Partition, offset: Any) -> None:
        """Register a partition that will be read from ``offset`` on."""
        self._tier(ssp).register(ssp, offset)

    def update(self, envelope: E) -> None:
        """Receive an envelope that may be chosen from now on."""
        self._tier(envelope.ssp).update(envelope)

    def choose(self) -> E | None:
        """Return the next envelope, or None."""
        for tier in self._tiers:
            envelope = tier.choose()
            if envelope is not None:
                return envelope
        return None

    def choose_above(self, ssp: Partition) -> E | None:
        """Return the next envelope of the tiers above that of a partition, or None."""
        own = self._tier(ssp)
        for tier in self._tiers:
            if tier is own:
                return None
            envelope = tier.choose()
            if envelope is not None:
                return envelope
        return None

    def snapshot(self) -> Any:
        """Return the state of each tier, from the highest."""
        states = [snapshot_of(tier) for tier in self._tiers]
        return states if any(state is not None for state in states) else None

    def restore(self, state: Any) -> None:
        """Restore a snapshot of as many tiers; one of other tiers is ignored."""
        for tier, part in zip(self._tiers, state or (), strict=False):
            restore_chooser(tier, part)

    def _tier(self, ssp: Partition) -> MessageChooser[E]:
        tier = self._of_stream.get(stream_name(ssp), self._default)
        if tier is None:
            raise NoDefaultTier(
                f"Stream {stream_name(ssp)!r} has no priority, and there is no chooser for streams without one.",
                hint=f"Set task.chooser.priorities.{stream_name(ssp)}.",
                stream=stream_name(ssp),
            )
        return tier


class TieredPriorityChooser(PriorityTiers[E]):
    """Priorities among ordered choosers, and an ordered chooser itself."""

    def __init__(
        self, priorities: Mapping[str, int], tiers: Mapping[int, OrderedChooser[E]], default: OrderedChooser[E] | None
    ) -> None:
        super().__init__(priorities, tiers, default)
        self._ordered = cast("list[OrderedChooser[E]]", self._tiers)

    def peek(self) -> Partition | None:
        """Return the partition that :meth:`choose` would choose from now."""
        for tier in self._ordered:
            ssp = tier.peek()
            if ssp is not None:
                return ssp
        return None

    def has(self, ssp: Partition) -> bool:
        """Return whether an envelope of a partition is waiting."""
        return self._ordered_tier(ssp).has(ssp)

    def take(self, ssp: Partition) -> E | None:
        """Return the oldest waiting envelope of one partition, out of turn."""
        return self._ordered_tier(ssp).take(ssp)

    def _ordered_tier(self, ssp: Partition) -> OrderedChooser[E]:
        return cast("OrderedChooser[E]", self._tier(ssp))
