"""Tables fed by topics of Kafka: they hold what a plain model of the compacted topic holds, or an error says why not."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from airflow_samza.application.loader import load_application
from airflow_samza.errors import PushError, SamzaError, TopicError
from airflow_samza.launch.table_push import table_place
from airflow_samza.runs.records.epoch_records import read_manifest
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.stage_state import StageHandle
from tests.support.budgets import extended_but
from tests.support.kafka_outputs import read_all
from tests.support.kafka_side_inputs import APPS, QUICK, Profiles, change, changes, key_of, model
from tests.support.kafka_topics import Sent, Topics
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

ALL = range(40)


@pytest.fixture
def profiles(tmp_path: Path, topics: Topics) -> Profiles:
    return Profiles(tmp_path / "root", topics, **QUICK)


@pytest.mark.parametrize("application", extended_but(["profiled", "processed"], ["profiled", "by_key", "processed"]))
def test_a_table_holds_the_last_value_of_each_key_that_was_not_deleted(profiles: Profiles, application: str) -> None:
    first, second = changes(1, 150), changes(2, 150)
    profiles.change(first)
    profiles.topics.transaction(profiles.changes, [change(n, "aborted") for n in ALL], end="abort")
    profiles.topics.transaction(profiles.changes, [change(*one) for one in second])
    profiles.view(ALL)
    plan = profiles.plan(application)
    profiles.change([(number, "too late") for number in ALL])
    profiles.here.stages(plan)
    assert profiles.tiers() == {number: model([*first, *second]).get(number) for number in ALL}


@pytest.mark.extended
def test_an_empty_topic_makes_an_empty_table(profiles: Profiles) -> None:
    profiles.view([1, 2])
    profiles.whole()
    assert profiles.tiers() == {1: None, 2: None}


@pytest.mark.extended
def test_a_second_application_reads_the_same(profiles: Profiles) -> None:
    profiles.change([(1, "gold"), (2, "silver")])
    profiles.view([1, 2])
    for application in ("profiled", "again"):
        profiles.whole(application)
    assert sorted((row["id"], row["tier"]) for row in profiles.here.rows("scored")) == [
        (1, "gold"),
        (1, "gold"),
        (2, "silver"),
        (2, "silver"),
    ]


# -- compaction --------------------------------------------------------------------------------------------------------


def test_a_clear_after_compaction_of_what_the_plan_saw_has_the_same_rows(profiles: Profiles, tmp_path: Path) -> None:
    profiles.change([(2, "former"), (4, "gone"), (2, "last"), (4, None), (6, "stays")])
    profiles.view([2, 4, 6])
    plan = profiles.plan(host=tmp_path / "host")
    profiles.here.stages(plan)
    profiles.compact(profiles.changes, [0, 1])
    _forget_host(tmp_path / "host")
    profiles.here.stages(plan, generation=2)
    assert profiles.tiers() == {2: "last", 4: None, 6: "stays"}


def test_a_clear_after_compaction_of_what_came_later_says_that_rows_are_gone(
    profiles: Profiles, tmp_path: Path
) -> None:
    profiles.change([(2, "planned"), (4, "stays")])
    profiles.view([2, 4])
    plan = profiles.plan(host=tmp_path / "host")
    profiles.here.stages(plan)
    profiles.change([(2, "later")])
    profiles.compact(profiles.changes, [0])
    _forget_host(tmp_path / "host")
    with pytest.raises(
        TopicError, match=r"'profiles' had 2 rows when the stage .* for this run, and has 1 now"
    ) as error:
        profiles.here.stages(plan, generation=2)
    assert "min.compaction.lag.ms" in str(error.value.hint)
    assert profiles.tiers() == {2: "planned", 4: "stays"}


@pytest.mark.extended
def test_a_clear_reads_from_the_host_what_compaction_has_deleted(profiles: Profiles, tmp_path: Path) -> None:
    profiles.change([(2, "planned"), (4, "stays")])
    profiles.view([2, 4])
    plan = profiles.plan(host=tmp_path / "host")
    profiles.here.stages(plan)
    profiles.change([(2, "later")])
    profiles.compact(profiles.changes, [0])
    profiles.here.stages(plan, generation=2)
    assert profiles.tiers() == {2: "planned", 4: "stays"}


def test_a_first_read_behind_a_compaction_warns_of_keys_that_may_be_lost(
    profiles: Profiles, caplog: pytest.LogCaptureFixture
) -> None:
    profiles.change([(2, "planned"), (4, "stays")])
    profiles.view([2, 4])
    plan = profiles.plan()
    profiles.change([(2, "later")])
    profiles.compact(profiles.changes, [0])
    profiles.here.stages(plan)
    assert "have keys that are not in its table" in caplog.text
    assert profiles.tiers() == {2: None, 4: "stays"}


@pytest.mark.extended
def test_a_topic_that_keeps_what_is_overwritten_needs_no_warning(
    tmp_path: Path, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    profiles = Profiles(tmp_path, topics, **QUICK, min_compaction_lag_ms="3600000")
    profiles.change([(2, "planned")])
    profiles.view([2])
    plan = profiles.plan()
    assert "promises to keep what is overwritten for 1 hour" in plan.notes["views"]["changes"]
    profiles.change([(2, "later"), (4, "new")])
    profiles.here.stages(plan)
    assert "min.compaction.lag.ms" not in caplog.text
    assert profiles.tiers() == {2: "planned"}


def _forget_host(folder: Path) -> None:
    shutil.rmtree(folder)


# -- what a host keeps -------------------------------------------------------------------------------------------------


def test_the_next_run_on_a_host_reads_only_what_is_new(profiles: Profiles, tmp_path: Path) -> None:
    profiles.change([(number, "first") for number in ALL])
    profiles.view([1, 2])
    assert _read(profiles, "profiled", tmp_path / "host") == 40
    profiles.change([(1, None), (2, "second")])
    assert _read(profiles, "profiled", tmp_path / "host") == 2
    assert profiles.tiers() == {1: None, 2: "second"}


@pytest.mark.extended
def test_a_topic_that_was_created_again_is_read_from_its_beginning(profiles: Profiles, tmp_path: Path) -> None:
    profiles.change([(1, "former"), (2, "former")])
    profiles.view([1, 2])
    profiles.whole(host=tmp_path / "host")
    _create_again(profiles)
    profiles.change([(1, "new"), (3, "new"), (5, "new")])
    profiles.whole(host=tmp_path / "host")
    assert profiles.tiers() == {1: "new", 2: None}


@pytest.mark.extended
def test_a_table_read_in_another_way_is_built_again(profiles: Profiles, tmp_path: Path) -> None:
    profiles.topics.send(profiles.changes, [Sent('{"id": 3, "tier": "a"}', key_of(1), partition=1)])
    profiles.view([1, 3])
    profiles.whole(host=tmp_path / "host")
    assert profiles.tiers() == {1: None, 3: "a"}
    profiles.whole("by_key", host=tmp_path / "host")
    assert profiles.tiers() == {1: "a", 3: None}


def test_a_kept_table_is_older_than_what_the_topic_tells_of_deleted_keys(tmp_path: Path, topics: Topics) -> None:
    profiles = Profiles(tmp_path / "root", topics, **QUICK, delete_retention_ms="0")
    profiles.change([(2, "planned"), (4, "stays")])
    profiles.view([2, 4])
    profiles.whole(host=tmp_path / "host")
    profiles.change([(2, None)])
    profiles.compact(profiles.changes, [0, 2])
    profiles.whole(host=tmp_path / "host")
    assert profiles.tiers() == {2: None, 4: "stays"}


def _read(profiles: Profiles, application: str, host: Path) -> int:
    """The messages of the side input that the tasks of a run read from the topic."""
    plan = profiles.whole(application, host=host)
    folder = StageHandle(plan.application, plan.run_id, "views", Generation(1, 1)).folder
    manifests = [read_manifest(profiles.here.log.filesystem, folder, task, 0) for task in range(2)]
    return sum(manifest.read_aside["changes"]["messages"] for manifest in manifests)


def _create_again(profiles: Profiles) -> None:
    profiles.topics.delete(profiles.changes)

    def made() -> bool:
        try:
            return bool(profiles.topics.make("changes", partitions=2, **QUICK))
        except KafkaException:  # its deletion takes a moment
            return False

    until(made, 60)


# -- what happens to the topic meanwhile -------------------------------------------------------------------------------


def test_rejects_a_topic_that_was_created_again_since_the_plan(profiles: Profiles) -> None:
    profiles.change([(1, "former")])
    profiles.view([1])
    plan = profiles.plan()
    _create_again(profiles)
    with pytest.raises(SamzaError, match=r"side input .changes. cannot be read as it was planned: .* created again"):
        profiles.here.stages(plan)


def test_rejects_a_range_of_which_retention_has_deleted_messages_since_the_plan(tmp_path: Path, topics: Topics) -> None:
    profiles = Profiles(tmp_path, topics, cleanup_policy="delete")
    profiles.change([(2, "a"), (4, "b"), (6, "c")])
    profiles.view([2])
    plan = profiles.plan()
    profiles.topics.expire(profiles.changes, 2)
    with pytest.raises(SamzaError, match="Up to 2 messages of the input range"):
        profiles.here.stages(plan)
    assert "2 older ones have expired" in profiles.plan().notes["views"]["changes"]


def test_rejects_a_side_input_that_got_more_partitions_than_the_stream_it_is_joined_with(profiles: Profiles) -> None:
    profiles.topics.widen(profiles.changes, 3)
    until(lambda: profiles.topics.system.brokers.topic(profiles.changes).partitions == 3, 60)
    with pytest.raises(SamzaError, match=r"joins .changes. \(3 partitions, .* with .views. \(2 partitions"):
        profiles.plan()


# -- messages that cannot be read --------------------------------------------------------------------------------------


def test_a_message_that_cannot_be_read_fails_the_stage_with_its_place(profiles: Profiles) -> None:
    profiles.topics.send(profiles.changes, [change(2, "a"), Sent("no object", key_of(4))])
    profiles.view([2])
    plan = profiles.plan()
    with pytest.raises(SamzaError, match=r"message at changes-\w+/0 offset 1 cannot be read"):
        profiles.here.stages(plan)


def test_what_is_dropped_leaves_the_row_of_its_key_as_it_was(profiles: Profiles) -> None:
    wrong = [Sent("no object", key_of(2)), Sent(json.dumps({"id": 4, "tier": 7}), key_of(4)), Sent(None, b"short")]
    profiles.topics.send(profiles.changes, [change(2, "a"), change(4, "b"), *wrong, change(6, "c")])
    profiles.view([2, 4, 6])
    plan = profiles.plan("dropping")
    profiles.here.stages(plan)
    assert profiles.tiers() == {2: "a", 4: "b", 6: "c"}


def test_a_message_without_a_value_whose_key_cannot_be_read_is_a_sentence(profiles: Profiles) -> None:
    profiles.topics.send(profiles.changes, [Sent(None, "2")])
    plan = profiles.plan()
    with pytest.raises(SamzaError, match=r"no value, so that it deletes its key, and id cannot be read .* key_column"):
        profiles.here.stages(plan)


# -- followed, pushed, changed -----------------------------------------------------------------------------------------


def test_a_continuous_run_follows_the_topic(profiles: Profiles) -> None:
    profiles.change([(2, "first"), (4, "first")])
    profiles.view([2])
    plan = profiles.plan("followed", mode="continuous")
    errors: list[SamzaError] = []

    def run() -> None:
        try:
            profiles.here.stages(plan)
        except SamzaError as error:
            errors.append(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()

    def shows(rows: dict[int, str | None]) -> bool:
        profiles.view(rows)
        return bool(errors) or profiles.tiers() == rows

    until(lambda: shows({2: "first"}), 60)
    profiles.change([(2, "second"), (4, None), (6, "new")])
    until(lambda: shows({2: "second", 4: None, 6: "new"}), 60)
    profiles.here.runtime.stop(plan)
    running.join(60)
    assert not running.is_alive()
    assert not errors, errors


def test_a_topic_whose_name_has_dots_is_named_in_the_configuration(tmp_path: Path, topics: Topics) -> None:
    profiles = Profiles(tmp_path, topics)
    profiles.changes = topics.make("profile.changes", partitions=2)
    profiles.change([(1, "gold")])
    profiles.view([1])
    plan = profiles.plan("configured", more={"stores.profiles.side.inputs": f"events.{profiles.changes}"})
    profiles.here.stages(plan)
    assert profiles.tiers() == {1: "gold"}


def test_rejects_a_pushed_table_in_a_system_of_kafka(profiles: Profiles) -> None:
    with pytest.raises(PushError, match="'profiles' is in the system 'events' of kind kafka, which keeps no versions"):
        profiles.plan("pushed_there")


def test_the_pushes_of_an_application_whose_default_system_is_kafka_lie_in_the_log(profiles: Profiles) -> None:
    spec = load_application(f"{APPS}:pushed_beside").spec({})
    place = table_place(spec, "profiles", profiles.here.bindings, None)
    assert (place.system, place.binding.kind) == ("log", "log")


def test_a_changelog_on_kafka_gets_what_is_written_to_the_table_once(profiles: Profiles) -> None:
    changelog = f"log.of.{profiles.changes}"
    profiles.view([1, 2])
    plan = profiles.plan("counting", more={"stores.seen.changelog": f"events.{changelog}"})
    profiles.here.stages(plan)
    profiles.here.stages(plan)  # a retry
    sent = read_all(profiles.topics.address, changelog)
    assert sorted((one.key, json.loads(one.value or b"")) for one in sent) == [
        (key_of(1), {"id": 1}),
        (key_of(2), {"id": 2}),
    ]
