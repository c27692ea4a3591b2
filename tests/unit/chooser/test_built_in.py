"""Properties of the built-in choosers beyond the cases (rules M1–M5)."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza.chooser import factories
from airflow_samza.chooser.alignment import (
    AlignmentChooser,
    RoundRobinChooser,
    StartingAlignmentChooser,
    behind_heads,
    messages_behind_head,
    percent_behind_head,
    sizes,
)
from airflow_samza.chooser.batching import BatchingChooser, HeldBatches
from airflow_samza.chooser.bootstrapping import BootstrappingChooser, HeadGate
from airflow_samza.chooser.default import ChooserContext, make_chooser
from airflow_samza.chooser.message_chooser import MessageChooser, OrderedChooser, PartitionHead, restore_chooser
from airflow_samza.chooser.settings import BOOTSTRAP_PRIORITY, ChooserSettings, InputChoice
from airflow_samza.chooser.tiered_priority import MissingTier, NoTiers, PriorityTiers, TieredPriorityChooser
from airflow_samza.config import Config
from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.system import SystemStreamPartition as Ssp
from tests.support.built_in_choosers import BUILT_IN
from tests.support.chooser_messages import Run, chosen_until_none
from tests.support.newest_first import NewestFirst


class Calls(RoundRobinChooser[Run]):
    """Notes what reaches it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def register(self, ssp: Any, offset: Any) -> None:
        self.calls.append((str(ssp), offset))


MADE: list[Calls] = []


def own_factory(context: ChooserContext) -> Calls:
    MADE.append(Calls())
    return MADE[-1]


class NothingOfA(NewestFirst):
    """Never wants a message of stream a."""

    def choose(self) -> Run | None:
        return super().choose() if self.waiting and self.waiting[-1].ssp.stream != "a" else None


def no_chooser(context: ChooserContext) -> str:
    return "a word"


A0, A1, B0, C0 = Ssp("k", "a", 0), Ssp("k", "a", 1), Ssp("k", "b", 0), Ssp("k", "c", 0)


def test_register_reaches_the_tier_of_the_stream_and_start_and_stop_every_tier_once() -> None:
    tier, shared, default = Calls(), Calls(), Calls()
    tiers: dict[int, OrderedChooser[Run]] = {1: tier, 2: shared, 3: shared}
    chooser = TieredPriorityChooser({"k.a": 1, "k.b": 2, "k.c": 3}, tiers, default)
    chooser.register(A0, "foo")
    chooser.start()
    chooser.stop()
    assert (tier.calls, shared.calls, default.calls) == (
        [("k.a/0", "foo"), "start", "stop"],
        ["start", "stop"],
        ["start", "stop"],
    )


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: BatchingChooser(inner, 2),
        lambda inner: BootstrappingChooser(inner, {}),
        lambda inner: HeadGate(HeldBatches(PriorityTiers({}, {}, inner), 2), {}),
    ],
)
@pytest.mark.parametrize("offset", ["1", None, ""])
def test_wrappers_pass_start_stop_and_registrations_on_once_with_offsets_unchanged(wrap: Any, offset: object) -> None:
    inner = Calls()
    chooser = wrap(inner)
    chooser.register(A0, offset)
    chooser.start()
    chooser.stop()
    assert inner.calls == [("k.a/0", offset), "start", "stop"]


def test_a_priority_without_a_chooser_is_rejected() -> None:
    with pytest.raises(MissingTier, match="priority 3") as rejected:
        TieredPriorityChooser({"k.a": 3}, {1: RoundRobinChooser()}, None)
    assert rejected.value.rule == "missing-tier"


def test_tiers_without_priorities_and_without_a_default_are_rejected() -> None:
    with pytest.raises(NoTiers) as rejected:
        TieredPriorityChooser({}, {}, None)
    assert rejected.value.rule == "null-chooser"


def test_a_negative_priority_comes_behind_streams_without_one() -> None:
    chooser = make_chooser(ChooserContext(ChooserSettings({"k.a": -1})))
    chooser.start()
    for ssp in (A0, B0):
        chooser.update(Run(ssp, 0, 1))
    assert [run.ssp for run in chosen_until_none(chooser)] == [B0, A0]


def test_a_batch_counts_messages_not_runs() -> None:
    chooser = BatchingChooser[Run](RoundRobinChooser(), 3)
    chooser.update(Run(A0, 0, 3))
    chooser.update(Run(B0, 0, 1))
    assert chooser.choose() == Run(A0, 0, 3)
    chooser.update(Run(A0, 3, 1))
    assert chooser.choose() == Run(B0, 0, 1)


def test_a_batch_is_over_when_there_was_nothing_to_choose() -> None:
    chooser = BatchingChooser[Run](RoundRobinChooser(), 3)
    chooser.update(Run(A0, 0, 1))
    assert [run.ssp for run in chosen_until_none(chooser)] == [A0]
    chooser.update(Run(B0, 0, 1))
    chooser.update(Run(A0, 1, 1))
    assert [run.ssp for run in chosen_until_none(chooser)] == [B0, A0]


def gate(heads: dict[Any, PartitionHead], **starts: int) -> BootstrappingChooser[Run]:
    chooser = BootstrappingChooser[Run](RoundRobinChooser(), heads)
    for ssp in (A0, A1, B0, C0):
        chooser.register(ssp, starts.get(f"{ssp.stream}{ssp.partition}", 0))
    chooser.start()
    return chooser


def test_empty_partitions_and_those_at_their_heads_at_registration_do_not_gate() -> None:
    heads: dict[Any, PartitionHead] = {A0: PartitionHead(None), A1: PartitionHead.between(5, 5), B0: PartitionHead("9")}
    assert not gate(heads, b0=10).lagging


def test_the_newest_message_is_still_to_be_read_when_reading_starts_at_it() -> None:
    assert gate({B0: PartitionHead("9")}, b0=9).lagging == {B0}


@pytest.mark.parametrize(
    ("offsets", "lags"),
    [((10, 9), True), ((9, 10), True), ((10, None, 11), False), ((None, "", 10), False), ((None,), True)],
)
def test_the_lowest_known_offset_of_several_registrations_counts(offsets: tuple[Any, ...], lags: bool) -> None:
    chooser = BootstrappingChooser[Run](RoundRobinChooser(), {A0: PartitionHead(9)})
    for offset in offsets:
        chooser.register(A0, offset)
    chooser.start()
    assert bool(chooser.lagging) is lags


def test_the_newest_message_stands_before_the_next_one_to_be_written() -> None:
    assert PartitionHead.between(3, 7) == PartitionHead(6, 3)
    assert PartitionHead.between(7, 7).is_empty


def test_a_head_of_a_partition_that_is_not_registered_does_not_gate() -> None:
    assert not gate({Ssp("k", "a", 7): PartitionHead(3)}).lagging


def test_an_unknown_head_is_an_error_at_start_and_not_a_wait() -> None:
    chooser = BootstrappingChooser[Run](RoundRobinChooser(), {}, lambda ssp: ssp.stream == "a")
    chooser.register(A0, 0)
    with pytest.raises(TopicError, match=r"head of k\.a/0 is not known"):
        chooser.start()


def test_offsets_that_hold_no_message_open_the_gate_when_reading_has_passed_them() -> None:
    chooser = gate({A0: PartitionHead(5)})
    chooser.update(Run(B0, 0, 1))
    assert chooser.choose() is None
    chooser.reached(A0, 4)
    assert chooser.choose() is None
    chooser.reached(A0, 5)
    assert chooser.choose() == Run(B0, 0, 1)


def test_text_offsets_are_compared_as_numbers_and_others_are_rejected() -> None:
    assert gate({A0: PartitionHead("100")}, a0=2).lagging == {A0}
    with pytest.raises(TopicError, match="'next' is not a whole number"):
        gate({A0: PartitionHead("next")})


def test_what_has_no_rank_is_not_held_back() -> None:
    chooser = AlignmentChooser[Run](lambda run: run.offset or None)
    chooser.update(Run(A0, 5, 1))
    chooser.update(Run(B0, 0, 1))
    assert [run.ssp for run in chosen_until_none(chooser)] == [B0, A0]


HEADS = {A0: PartitionHead.between(0, 1000), B0: PartitionHead.between(500, 600), C0: PartitionHead(None)}


def test_the_most_messages_behind_the_head_and_the_greatest_share_go_first() -> None:
    by_messages = messages_behind_head(behind_heads(HEADS))
    by_percent = percent_behind_head(behind_heads(HEADS), sizes(HEADS))
    for chooser in (by_messages, by_percent):
        for run in (Run(A0, 500, 1), Run(B0, 510, 1), Run(C0, 0, 1)):
            chooser.update(run)
    assert [run.ssp for run in chosen_until_none(by_messages)] == [A0, B0, C0]
    assert [run.ssp for run in chosen_until_none(by_percent)] == [B0, A0, C0]


@pytest.mark.parametrize(
    ("a", "b", "first"),
    [(150, 1200, B0), (150, 900, A0), (90, 900, A0), (10, 950, B0)],
    ids=["all behind", "one behind", "all ahead", "all ahead, the other closer"],
)
def test_starting_alignment_is_kept(a: int, b: int, first: Ssp) -> None:
    behind = {A0: a, B0: b}
    at_start: dict[Any, int] = {A0: 100, B0: 1000}
    chooser: AlignmentChooser[Run] = StartingAlignmentChooser(
        lambda run: behind[run.ssp], lambda ssp, offset: at_start[ssp]
    )
    for ssp in at_start:
        chooser.register(ssp, 0)
    chooser.update(Run(A0, 1, 1))
    chooser.update(Run(B0, 1, 1))
    chosen = chooser.choose()
    assert chosen is not None
    assert chosen.ssp == first


def test_starting_alignment_is_that_of_the_first_envelopes_where_nothing_else_is_given() -> None:
    chooser = StartingAlignmentChooser(behind_heads(HEADS))
    for run in (Run(A0, 0, 1), Run(B0, 500, 1)):
        chooser.update(run)
    assert len(chosen_until_none(chooser)) == 2
    for run in (Run(A0, 100, 1), Run(B0, 501, 1)):
        chooser.update(run)
    assert [run.ssp for run in chosen_until_none(chooser)] == [B0, A0]


def test_starting_alignment_is_that_of_the_start_in_later_epochs_whose_heads_are_others() -> None:
    """At start a is 100 behind and b 10.

    When both are read up, 50 of a and 30 of b come: b has fallen farther behind its start.
    """

    def chooser(a: int, b: int, head_a: int, head_b: int, state: Any = None) -> Any:
        heads = {A0: PartitionHead.between(0, head_a), B0: PartitionHead.between(0, head_b)}
        made = make_chooser(
            ChooserContext(ChooserSettings(factory=f"{factories.__name__}:starting_alignment"), heads={}, newest=heads)
        )
        made.register(A0, a)
        made.register(B0, b)
        if state is not None:
            made.restore(state)
        made.start()
        return made

    first = chooser(0, 0, 100, 10)
    second = chooser(100, 10, 150, 40, first.snapshot())
    for run in (Run(A0, 100, 1), Run(B0, 10, 1)):
        second.update(run)
    assert second.choose().ssp == B0
    fresh = chooser(100, 10, 150, 40)
    for run in (Run(B0, 10, 1), Run(A0, 100, 1)):
        fresh.update(run)
    assert fresh.choose().ssp == B0  # of equal distances what came first


def test_messages_beyond_the_head_are_still_told_apart_by_how_far_they_are_beyond_it() -> None:
    chooser = messages_behind_head(behind_heads(HEADS))
    for run in (Run(A0, 1300, 1), Run(B0, 700, 1)):
        chooser.update(run)
    assert [run.ssp for run in chosen_until_none(chooser)] == [B0, A0]


def test_configuration_leads_over_what_is_declared_and_the_choosers_own_key_over_its_alias() -> None:
    config = Config(
        {
            "task.chooser.priorities.k.a.b": "7",
            "systems.k.streams.a.b.samza.priority": "3",
            "streams.clicks.samza.system": "k",
            "streams.clicks.samza.physical.name": "c-1",
            "streams.clicks.samza.bootstrap": "true",
            "systems.k.streams.d.samza.bootstrap": "false",
            "job.default.system": "k",
            "streams.f.samza.priority": "-2",
        }
    )
    inputs = {
        "k.a.b": InputChoice("a.b", "k.a.b", 1),
        "k.c-1": InputChoice("clicks", "k.c-1"),
        "k.d": InputChoice("d", "k.d", bootstrap=True),
        "k.e": InputChoice("e", "k.e", 4, True),
        "k.f": InputChoice("f", "k.f"),
    }
    settings = ChooserSettings.of(config, inputs)
    assert settings.priorities == {"k.a.b": 7, "k.e": 4}
    assert settings.bootstrap == {"k.c-1", "k.e"}
    assert [settings.priority(stream) for stream in ("k.a.b", "k.c-1", "k.d")] == [7, BOOTSTRAP_PRIORITY, 0]


def test_a_priority_that_is_no_number_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"task\.chooser\.priorities\.k\.a is 'high'"):
        ChooserSettings.of(Config({"task.chooser.priorities.k.a": "high"}), {"k.a": InputChoice("a", "k.a")})


def test_waiting_for_the_head_of_all_gates_every_input() -> None:
    inputs = {f"k.{name}": InputChoice(name, f"k.{name}") for name in "ab"}
    settings = ChooserSettings.of(Config({"task.chooser.wait.for.head": "all"}), inputs)
    chooser = make_chooser(ChooserContext(settings, heads={A0: PartitionHead(1), B0: PartitionHead(1)}))
    chooser.register(A0, 0)
    chooser.register(B0, 0)
    chooser.start()
    chooser.update(Run(A0, 0, 1))
    assert chooser.choose() is None
    chooser.update(Run(B0, 0, 2))
    assert [run.ssp for run in chosen_until_none(chooser)] == [A0]


def test_a_bootstrap_stream_is_wholly_read_before_anything_else() -> None:
    settings = ChooserSettings(bootstrap=frozenset(["k.a"]), batch_size=2)
    chooser = make_chooser(ChooserContext(settings, heads={A0: PartitionHead(2)}))
    for ssp in (A0, B0):
        chooser.register(ssp, 0)
    chooser.start()
    chooser.update(Run(B0, 0, 1))
    for offset in range(3):
        assert chooser.choose() is None
        chooser.update(Run(A0, offset, 1))
        assert chooser.choose() == Run(A0, offset, 1)
    assert chooser.choose() == Run(B0, 0, 1)


def test_a_negative_priority_of_samzas_streams_is_unset_and_one_of_the_chooser_is_not() -> None:
    config = Config(
        {
            "systems.k.streams.a.samza.priority": "-1",
            "streams.b.samza.priority": "-1",
            "task.chooser.priorities.k.c": "-1",
        }
    )
    inputs = {f"k.{name}": InputChoice(name, f"k.{name}", 5 if name == "b" else None) for name in "abc"}
    settings = ChooserSettings.of(config, inputs)
    assert settings.priorities == {"k.b": 5, "k.c": -1}


def test_an_input_is_configured_by_its_id_and_by_the_system_that_the_environment_gave_it() -> None:
    config = Config(
        {"streams.a.samza.priority": "3", "streams.b.samza.bootstrap": "true", "task.chooser.priorities.events.c": "4"}
    )
    inputs = {f"events.{name}": InputChoice(name, f"log.{name}") for name in "abc"}
    settings = ChooserSettings.of(config, inputs)
    assert settings.priorities == {"events.a": 3, "events.c": 4}
    assert settings.bootstrap == {"events.b"}


@pytest.mark.parametrize("name", [f"{__name__}:own_factory", f"{__name__}.own_factory"])
def test_a_chooser_of_ones_own_is_plugged_in_by_name_one_for_each_priority_in_effect(name: str) -> None:
    MADE.clear()
    chooser = make_chooser(ChooserContext(ChooserSettings({"k.a": 1, "k.b": 1}, frozenset(["k.c"]), factory=name)))
    for ssp in (A0, B0, Ssp("k", "d", 0)):
        chooser.register(ssp, 0)
    chooser.stop()
    assert [made.calls for made in MADE] == [["stop"], [("k.a/0", 0), ("k.b/0", 0), "stop"], [("k.d/0", 0), "stop"]]


@pytest.mark.parametrize(
    "name",
    [*(f"{factories.__name__}:{name}" for name in BUILT_IN), f"{__name__}:own_factory", f"{__name__}:NewestFirst"],
)
def test_the_head_gate_and_priorities_stand_in_front_of_any_chooser(name: str) -> None:
    settings = ChooserSettings({"k.b": 1}, frozenset(["k.a"]), batch_size=1, factory=name)
    heads = {A0: PartitionHead(1), B0: PartitionHead(0), C0: PartitionHead(0)}
    chooser = make_chooser(ChooserContext(settings, heads=heads, time_of=lambda run: run.offset))
    for ssp in heads:
        chooser.register(ssp, 0)
    chooser.start()
    for run in (Run(C0, 0, 1), Run(B0, 0, 1)):
        chooser.update(run)
    assert chooser.choose() is None
    chooser.update(Run(A0, 0, 1))
    assert chooser.choose() == Run(A0, 0, 1)
    assert chooser.choose() is None
    chooser.update(Run(A0, 1, 1))
    assert [run.ssp for run in chosen_until_none(chooser)] == [A0, B0, C0]


def test_batches_stand_around_a_chooser_that_cannot_tell_what_comes_next() -> None:
    chooser = make_chooser(ChooserContext(ChooserSettings({"k.b": 1}, batch_size=3, factory=f"{__name__}:NewestFirst")))
    for ssp in (A0, A1, B0):
        chooser.register(ssp, 0)
    chooser.start()
    taken = []
    for first in (A0, A1):
        chooser.update(Run(first, 0, 1))
    for number in range(1, 8):
        run = chooser.choose()
        assert run is not None
        taken.append(run.ssp)
        if number == 5:  # interrupts the second batch, which is over then
            chooser.update(Run(B0, 0, 1))
        if run.ssp != B0:
            chooser.update(Run(run.ssp, run.offset + 1, 1))
    assert taken == [A1, A1, A1, A1, A1, B0, A1]


def test_a_chooser_that_takes_nothing_now_leaves_its_tier_to_lower_ones() -> None:
    chooser = make_chooser(ChooserContext(ChooserSettings({"k.a": 1}, factory=f"{__name__}:NothingOfA")))
    for run in (Run(A0, 0, 1), Run(B0, 0, 1)):
        chooser.update(run)
    assert [run.ssp for run in chosen_until_none(chooser)] == [B0]


def test_without_a_name_the_default_chooser_is_made() -> None:
    assert isinstance(make_chooser(ChooserContext()), BootstrappingChooser)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("word", "cannot be imported: ModuleNotFoundError: No module named .word"),
        ("no.such.module:x", "cannot be imported"),
        (f"{__name__}:missing", "cannot be imported: AttributeError: .* has no attribute .missing"),
        (f"{__name__}:A0", "cannot be called"),
        (f"{__name__}:no_chooser", "makes a str, which is no chooser"),
    ],
)
def test_a_name_that_leads_to_no_chooser_is_rejected(name: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as rejected:
        make_chooser(ChooserContext(ChooserSettings(factory=name)))
    assert rejected.value.facts["key"] == "task.chooser.class"


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_chooser_is_plugged_in_by_name(name: str) -> None:
    settings = ChooserSettings(batch_size=2, factory=f"{factories.__name__}:{name}")
    chooser = make_chooser(ChooserContext(settings, heads={A0: PartitionHead(3)}, time_of=lambda run: run.offset))
    assert isinstance(chooser, OrderedChooser)
    assert isinstance(chooser, MessageChooser)
    chooser.register(A0, 0)
    chooser.start()
    chooser.update(Run(A0, 0, 1))
    assert [run.ssp for run in chosen_until_none(chooser)] == [A0]


@pytest.mark.parametrize(
    ("name", "needs"), [("batching", "task.consumer.batch.size"), ("time_aligned", "the time of messages")]
)
def test_a_built_in_chooser_that_lacks_what_it_needs_is_rejected(name: str, needs: str) -> None:
    with pytest.raises(ConfigError, match=needs):
        make_chooser(ChooserContext(ChooserSettings(factory=f"{factories.__name__}:{name}")))


def test_of_two_keys_for_one_input_the_systems_is_taken() -> None:
    keys = {"systems.k.streams.a.samza.bootstrap": "false", "streams.a.samza.bootstrap": "true"}
    config = Config({**keys, "streams.a.samza.system": "k"})
    assert ChooserSettings.of(config, {"k.a": InputChoice("a", "k.a")}).bootstrap == frozenset()


def test_a_state_is_restored_where_there_is_one_and_the_chooser_has_any() -> None:
    restored = []

    class Counting:
        def snapshot(self) -> Any:
            return 1

        def restore(self, state: Any) -> None:
            restored.append(state)

    restore_chooser(object(), {"count": 1})
    restore_chooser(Counting(), None)
    restore_chooser(Counting(), 2)
    assert restored == [2]
