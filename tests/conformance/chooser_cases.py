"""Runs the chooser cases: sequences of updates and choices, and what configuration means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from airflow_samza.chooser.alignment import (
    AlignmentChooser,
    RoundRobinChooser,
    StartingAlignmentChooser,
    messages_behind_head,
    offset_aligned,
    percent_behind_head,
)
from airflow_samza.chooser.batching import BatchingChooser
from airflow_samza.chooser.bootstrapping import BootstrappingChooser
from airflow_samza.chooser.default import ChooserContext, make_chooser
from airflow_samza.chooser.message_chooser import MessageChooser, PartitionHead, is_known
from airflow_samza.chooser.settings import ChooserSettings, InputChoice
from airflow_samza.chooser.tiered_priority import TieredPriorityChooser
from airflow_samza.config import Config
from airflow_samza.errors import SamzaError
from tests.conformance.shape import fields


class Place(NamedTuple):
    """A partition as a case writes it: ``system.stream/partition``."""

    system: str
    stream: str
    partition: int

    def __str__(self) -> str:
        return f"{self.system}.{self.stream}/{self.partition}"


@dataclass(frozen=True)
class Given:
    """A single message of a case."""

    name: str
    ssp: Place
    offset: str | None
    time: int | None
    behind: int
    size: int
    messages: int = 1

    def slice(self, first: int, count: int) -> Given:
        raise AssertionError(f"a single message was cut: {first}, {count}")


def run_sequence_case(case: Mapping[str, Any]) -> None:
    fields(case, "case", ["chooser", "envelopes", "register", "steps"], ["seed_expectation"])
    envelopes = {name: _envelope(name, data) for name, data in case["envelopes"].items()}
    if not case["steps"]:
        pytest.fail("unknown shape: the case has no steps")
    chooser = _chooser(case["chooser"])
    for place, offset in case["register"]:
        chooser.register(_place(place), offset)
    if case["chooser"]["kind"] == "starting_alignment":
        for envelope in envelopes.values():
            chooser.register(envelope.ssp, envelope.offset)
    if case["chooser"]["kind"] == "seed_gate":
        read = case["chooser"].get("last_read", {})
        registered = {place for place, _ in case["register"]}
        for place in (*case["chooser"]["last_offsets"], *read):
            if place not in registered:
                # What was read last, the document says; a chooser is told what will be read first.
                chooser.register(_place(place), int(read[place]) + 1 if is_known(read.get(place)) else None)
    chooser.start()
    for number, step in enumerate(case["steps"]):
        _step(chooser, envelopes, step, f"step {number}: {step}")
    chooser.stop()


def inputs_of(config: Config) -> dict[str, InputChoice]:
    """Return the inputs that a configuration of Samza names, with the ids under which it configures them."""
    broadcast = (entry.rpartition("#")[0] or entry for entry in config.listing("task.broadcast.inputs"))
    ids: dict[str, str] = {}
    for key in sorted(config):
        if (found := re.match(r"streams\.(.+?)\.samza\.", key)) is not None:
            stream_id = found[1]
            system = config.text(f"streams.{stream_id}.samza.system") or config.text("job.default.system")
            ids[f"{system}.{config.text(f'streams.{stream_id}.samza.physical.name', stream_id)}"] = stream_id
    return {name: InputChoice(ids.get(name, ""), name) for name in (*config.listing("task.inputs"), *broadcast)}


def run_config_case(case: Mapping[str, Any]) -> None:
    fields(case, "case", ["config", "expect"])
    expect = fields(case["expect"], "expect", [], ["priority", "bootstrap", "effective", "batch_size", "differs"])
    if not set(expect) - {"differs"}:
        pytest.fail("unknown shape: the case expects nothing")
    config = Config(case["config"])
    settings = ChooserSettings.of(config, inputs_of(config))
    if "priority" in expect:
        assert settings.priorities == expect["priority"]
    if "bootstrap" in expect:
        assert sorted(settings.bootstrap) == sorted(expect["bootstrap"])
    for stream, priority in expect.get("effective", {}).items():
        assert settings.priority(stream) == priority, stream
    if "batch_size" in expect:
        assert settings.batch_size == expect["batch_size"]


def _step(chooser: MessageChooser[Given], envelopes: Mapping[str, Given], step: Any, where: str) -> None:
    match step:
        case ["update", name]:
            chooser.update(envelopes[name])
        case ["update", name, {"reject": rule, **more}] if not more:
            with pytest.raises(SamzaError) as rejected:
                chooser.update(envelopes[name])
            assert rejected.value.rule == rule, where
        case ["choose", name]:
            found = chooser.choose()
            assert (None if found is None else found.name) == name, where
        case ["lagging", places]:
            assert isinstance(chooser, BootstrappingChooser)
            assert sorted(str(ssp) for ssp in chooser.lagging) == sorted(places), where
        case _:
            pytest.fail(f"unknown shape: {where}")


def _prioritised(priorities: Mapping[str, int]) -> TieredPriorityChooser[Given]:
    """By priority, round robin within each; streams without a priority have 0."""
    tiers = {priority: RoundRobinChooser[Given]() for priority in {0, *priorities.values()}}
    return TieredPriorityChooser(priorities, tiers, tiers[0])


def _chooser(data: Mapping[str, Any]) -> MessageChooser[Given]:
    kind = data.get("kind")
    match kind:
        case "round_robin":
            fields(data, "chooser", ["kind"])
            return RoundRobinChooser()
        case "priority":
            fields(data, "chooser", ["kind", "priorities"], ["default"])
            if data.get("default", True):
                return _prioritised(data["priorities"])
            return TieredPriorityChooser(
                data["priorities"], {p: RoundRobinChooser() for p in data["priorities"].values()}, None
            )
        case "batching":
            fields(data, "chooser", ["kind", "batch_size"])
            return BatchingChooser(RoundRobinChooser(), data["batch_size"])
        case "seed_batching":
            fields(data, "chooser", ["kind", "batch_size", "priorities"])
            priorities = data["priorities"]
            tiers = _prioritised(priorities)
            return BatchingChooser(
                tiers, data["batch_size"], lambda ssp: int(priorities.get(f"{ssp.system}.{ssp.stream}", 0))
            )
        case "bootstrapping":
            fields(data, "chooser", ["kind", "bootstrap"])
            return BootstrappingChooser(RoundRobinChooser(), _heads(data["bootstrap"]))
        case "seed_gate":
            fields(data, "chooser", ["kind", "last_offsets"], ["last_read"])
            heads: dict[Any, PartitionHead] = {
                _place(place): PartitionHead(newest) for place, newest in data["last_offsets"].items()
            }
            return BootstrappingChooser(RoundRobinChooser(), heads)
        case "default":
            fields(data, "chooser", ["kind"], ["priorities", "bootstrap", "batch_size"])
            heads = _heads(data.get("bootstrap", {}))
            # Priorities of cases are the effective ones, so that bootstrap streams are gated here and get none of their
            # own.
            settings = ChooserSettings(data.get("priorities", {}), batch_size=data.get("batch_size"))
            return make_chooser(ChooserContext(settings, heads=heads, is_gated=heads.__contains__))
        case _:
            return _alignment(data)


def _alignment(data: Mapping[str, Any]) -> MessageChooser[Given]:
    starting = data.get("kind") == "starting_alignment"
    fields(data, "chooser", ["kind"], ["start_behind"] if starting else [])
    match data["kind"]:
        case "time_aligned":
            return AlignmentChooser(lambda given: given.time)
        case "offset_aligned":
            return offset_aligned()
        case "messages_behind_head":
            return messages_behind_head(lambda given: given.behind)
        case "percent_behind_head":
            return percent_behind_head(lambda given: given.behind, lambda given: given.size)
        case "starting_alignment":
            start = data.get("start_behind", {})
            return StartingAlignmentChooser(
                lambda given: given.behind,
                lambda ssp, offset: start.get(str(ssp), start.get(f"{ssp.system}.{ssp.stream}")),
            )
        case kind:
            pytest.fail(f"unknown shape: a chooser of kind {kind!r}")


def _heads(bootstrap: Mapping[str, Any]) -> dict[Any, PartitionHead]:
    heads = {}
    for place, data in bootstrap.items():
        fields(data, place, ["newest"], ["upcoming", "oldest"])
        heads[_place(place)] = PartitionHead(data["newest"], data.get("oldest"))
    return heads


def _place(text: str) -> Place:
    stream, _, partition = text.rpartition("/")
    system, _, name = stream.partition(".")
    return Place(system, name, int(partition))


def _envelope(name: str, data: Mapping[str, Any]) -> Given:
    fields(data, name, ["system", "stream", "partition", "offset"], ["time", "behind", "size"])
    place = Place(data["system"], data["stream"], data["partition"])
    return Given(name, place, data["offset"], data.get("time"), data.get("behind", 0), data.get("size", 0))
