"""The contract of every registered kind of system, and of each capability over the kinds that have it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_samza.errors import SamzaError
from airflow_samza.system_kinds import find_kind, kinds, traits_of
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.capabilities import (
    DiscardsStaged,
    ExpiresTopics,
    HasSections,
    IdentifiesTopics,
    LocatesStreams,
    PublishesForGood,
    RemembersWriters,
    ReportsNews,
    Superseded,
)
from airflow_samza.systems.files.location import open_location
from airflow_samza.systems.spark.system import CarriedByDriver
from airflow_samza.systems.system import MessageRun, Publication, StreamSpec, System, SystemBinding
from tests.support import delta_lake
from tests.support.iceberg_lake import catalog_at, table_of
from tests.support.kafka_topics import Sent, Topics
from tests.support.topic_contract import STREAM, TopicSystem, batch, bound_topics, publish, ssp, systems_with

if TYPE_CHECKING:
    from demo.kafka import Kafka

REACHED_BY_TASKS = [kind for kind in kinds() if not traits_of(kind).through_topics]
ON_ROOTS = [kind for kind in REACHED_BY_TASKS if kind not in ("kafka", "iceberg", "delta")]
"""Kinds that write streams under a root. Those of Kafka lie at brokers, tables of Iceberg in a catalog."""


@pytest.fixture
def system(request: pytest.FixtureRequest, tmp_path: Path) -> TopicSystem:
    return bound_topics(request, tmp_path)


def having(*capabilities: type) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("system", systems_with(*capabilities), indirect=True)


def bound(kind: str, root: Path | str, name: str = "here") -> System:
    options = {"bootstrap.servers": "broker.invalid:9092"} if kind == "kafka" else {"root": str(root)}
    return bind_system(name, SystemBinding(kind, options), str(root))


def at_brokers(kafka: Kafka, root: Path | str = "") -> System:
    return bind_system("here", SystemBinding("kafka", {"bootstrap.servers": kafka.address}), str(root))


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.extended)])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder of this host, or a prefix in a bucket."""
    if request.param == "s3":
        return str(request.getfixturevalue("s3").url(f"systems/{tmp_path.parent.name}/{tmp_path.name}"))
    return str(tmp_path)


@pytest.mark.parametrize("kind", ON_ROOTS)
def test_what_is_published_is_what_a_slice_holds_and_is_read_back(kind: str, root: str) -> None:
    assert_publishes_three(kind, bound(kind, root), "out")


@pytest.mark.kafka
def test_what_is_published_to_brokers_is_what_a_slice_holds_and_is_read_back(kafka: Kafka, tmp_path: Path) -> None:
    assert_publishes_three("kafka", at_brokers(kafka, tmp_path), Topics(kafka.address).name("out"))


def assert_publishes_three(kind: str, system: System, name: str, **options: str) -> None:
    said = tuple(options.items())
    out = StreamSpec(name, partitions=1, schema="id bigint, name string", written=True, options=said)
    system.admin.create([out])
    system.check_writable(out)
    writer = system.producer(out, "attempt")
    writer.write(0, batch(0, 3))
    staged = {0: writer.finish()}
    for _ in range(2):  # again changes nothing
        assert system.publish(out, Publication("app/run/stage", "1.1", 0, staged))["rows"] == 3
    assert_holds_three(kind, system, name)


@pytest.mark.kafka
def test_what_a_topic_at_brokers_holds_is_what_a_slice_holds_and_is_read_back(kafka: Kafka) -> None:
    topics = Topics(kafka.address)
    topic = topics.make()
    topics.send(topic, [Sent(f'{{"id":{number},"name":"n{number}"}}') for number in range(3)])
    assert_holds_three("kafka", at_brokers(kafka), topic)


def assert_holds_three(kind: str, system: System, name: str) -> None:
    """The stream holds the batch of three, in one partition."""
    read = StreamSpec(name, partitions=1, schema="id bigint, name string")
    fixed = system.slice(read)
    assert (fixed["kind"], fixed["partitions"]) == (kind, 1)
    runs = [run for run in system.consumer(read, fixed).read(ssp(0, read), None) if isinstance(run, MessageRun)]
    assert [row["id"] for run in runs for row in run.batch.to_pylist()] == [0, 1, 2]
    (metadata,) = system.admin.metadata([read]).values()
    assert metadata.partitions == 1


def test_what_a_table_of_a_catalog_holds_is_what_a_slice_holds_and_is_read_back(tmp_path: Path) -> None:
    table_of(tmp_path, batch(0, 3).schema, batch(0, 3).to_pylist(), name="web.out")
    assert_holds_three("iceberg", bound("iceberg", tmp_path), "web.out")


def test_a_table_that_a_catalog_does_not_have_is_an_error_of_ours_and_no_metadata(tmp_path: Path) -> None:
    with catalog_at(tmp_path):
        assert_knows_nothing(bound("iceberg", tmp_path))


def test_what_a_table_of_delta_holds_is_what_a_slice_holds_and_is_read_back(root: str, tmp_path: Path) -> None:
    delta_lake.table_of(tmp_path, batch(0, 3).schema, batch(0, 3).to_pylist(), name="web.out")
    copy_below(tmp_path, root)
    assert_holds_three("delta", bound("delta", root), "web.out")


def copy_below(folder: Path, root: str) -> None:
    """Copy all files of a folder below a root, if that is another place."""
    place = open_location(root)
    for path in folder.rglob("*") if root != str(folder) else ():
        if path.is_file():
            with place.filesystem.open_output_stream((place / str(path.relative_to(folder))).path) as sink:
                sink.write(path.read_bytes())


def test_a_folder_without_a_log_of_delta_is_an_error_of_ours_and_no_metadata(root: str) -> None:
    assert_knows_nothing(bound("delta", root))


def test_what_is_published_to_a_table_of_delta_is_what_a_slice_holds_and_is_read_back(root: str) -> None:
    assert_publishes_three("delta", bound("delta", root), "web.out", create="true")


def test_what_is_published_to_a_table_is_what_a_slice_holds_and_is_read_back(tmp_path: Path) -> None:
    assert_publishes_three("iceberg", bound("iceberg", tmp_path), "web.out", create="true")


def test_a_table_that_is_missing_is_made_only_where_the_output_says_so(tmp_path: Path) -> None:
    system, out = bound("iceberg", tmp_path), StreamSpec("web.out", schema="id bigint", written=True)
    system.admin.create([out])
    with pytest.raises(SamzaError, match="has no Iceberg catalog"):
        system.check_writable(out)
    with catalog_at(tmp_path), pytest.raises(SamzaError, match=r"The table web.out .* does not exist") as caught:
        system.check_writable(out)
    assert 'create="true"' in caught.value.hint


@pytest.mark.parametrize("kind", ON_ROOTS)
def test_a_missing_stream_is_an_error_of_ours_and_no_metadata(kind: str, root: str) -> None:
    assert_knows_nothing(bound(kind, root))


@pytest.mark.kafka
def test_a_topic_that_brokers_do_not_have_is_an_error_of_ours_and_no_metadata(kafka: Kafka) -> None:
    assert_knows_nothing(at_brokers(kafka))


def assert_knows_nothing(system: System) -> None:
    nothing = StreamSpec("nothing", schema="id bigint")
    assert system.admin.metadata([nothing]) == {}
    with pytest.raises(SamzaError, match="nothing"):
        system.slice(nothing)


@pytest.mark.parametrize("kind", kinds())
def test_the_traits_of_a_kind_agree_with_its_capabilities(kind: str, tmp_path: Path) -> None:
    system, traits, found = bound(kind, tmp_path), traits_of(kind), find_kind(kind)
    assert found is not None
    assert isinstance(system, found.load())
    assert isinstance(system, System)
    assert isinstance(system, TopicSystem) == traits.carries_control
    assert isinstance(system, CarriedByDriver) == traits.through_topics
    assert isinstance(system, PublishesForGood) == traits.stages_outputs
    if traits.keeps_versions:
        for capability in (HasSections, RemembersWriters, DiscardsStaged):
            assert isinstance(system, capability)
    if traits.carries_control and not traits.in_one_process:  # as the topics of a run need
        assert isinstance(system, IdentifiesTopics)


@having(ReportsNews)
def test_reports_news_when_something_was_committed_after_a_slice(system: TopicSystem) -> None:
    assert isinstance(system, ReportsNews)
    system.admin.create([STREAM])
    before = system.slice(STREAM)
    assert not system.has_news(STREAM, before)
    publish(system, 0, {0: batch(0, 1)})
    assert system.has_news(STREAM, before)
    assert not system.has_news(STREAM, system.slice(STREAM))


@having(IdentifiesTopics, ExpiresTopics)
def test_a_topic_that_was_made_anew_has_another_identity(system: TopicSystem) -> None:
    assert isinstance(system, IdentifiesTopics)
    assert isinstance(system, ExpiresTopics)
    assert system.identity(STREAM) is None
    found = []
    for _ in range(2):
        system.admin.create([STREAM])
        found.append(system.identity(STREAM))
        topic = system.expiring(STREAM.name)
        assert topic is not None
        assert topic.delete()
    assert len({*found, None}) == 3


@having(HasSections)
def test_a_topic_has_a_date_when_it_is_there(system: TopicSystem) -> None:
    assert isinstance(system, HasSections)
    assert system.creation_time(STREAM.name) is None
    system.admin.create([STREAM])
    assert system.creation_time(STREAM.name) == system.creation_time(STREAM.name) is not None


@having(RemembersWriters)
def test_remembers_the_newest_generation_of_a_writer(system: TopicSystem) -> None:
    assert isinstance(system, RemembersWriters)
    assert system.standing(STREAM, "app/run/stage") is None
    system.admin.create([STREAM])
    for generation in ("1.9", "1.10"):
        publish(system, 0, {0: batch(0, 1)}, generation=generation)
        assert system.standing(STREAM, "app/run/stage") == generation
    assert system.standing(STREAM, "app/run/another") is None


@having(HasSections)
def test_names_what_was_read_and_superseded_since(system: TopicSystem) -> None:
    assert isinstance(system, HasSections)
    system.admin.create([STREAM])
    publish(system, 0, {1: batch(0, 2)})
    fixed = system.slice(STREAM)
    assert system.superseded(STREAM, fixed, [0, 0, 0], [0, 2, 0]) == []
    publish(system, 0, {1: batch(0, 2)}, generation="1.2")
    (found,) = system.superseded(STREAM, fixed, [0, 0, 0], [0, 2, 0])
    assert found == Superseded("app/run/stage", "1.1", "1.2", 1, 0, "app/run/stage")
    assert system.superseded(STREAM, fixed, [0, 0, 0], [0, 0, 0]) == []


@having(HasSections)
def test_counts_how_far_each_writer_has_come(system: TopicSystem) -> None:
    assert isinstance(system, HasSections)
    assert system.written_ends(STREAM) == {}
    system.admin.create([STREAM])
    publish(system, 0, {0: batch(0, 2)})
    publish(system, 0, {0: batch(0, 3), 2: batch(0, 1)}, producer="app/run/another")
    assert system.written_ends(STREAM) == {"app/run/stage": (2, 0, 0), "app/run/another": (5, 0, 1)}


@pytest.mark.parametrize("kind", ["log", "files", "kafka", "iceberg", "delta"])
def test_a_place_is_the_same_under_all_names_of_its_system(kind: str, tmp_path: Path) -> None:
    here, there = (bound(kind, tmp_path, name) for name in ("here", "there"))
    assert isinstance(here, LocatesStreams)
    assert isinstance(there, LocatesStreams)
    assert here.location(STREAM) == there.location(STREAM) != here.location(StreamSpec("other"))


def test_the_place_of_files_is_the_folder_that_their_path_names(tmp_path: Path) -> None:
    system = bound("files", tmp_path)
    assert isinstance(system, LocatesStreams)
    for path in ("in", "in/*.json", "in/**", "in/day=*/a.json"):
        assert system.location(StreamSpec("views", path=path)) == str(tmp_path / "in")


@having(ExpiresTopics)
def test_a_topic_that_expires_is_marked_held_and_deleted(system: TopicSystem) -> None:
    assert isinstance(system, ExpiresTopics)
    assert system.expiring(STREAM.name) is None
    system.admin.create([STREAM])
    topic = system.expiring(STREAM.name)
    assert topic is not None
    for at in (None, 5, 7, None):
        topic.expire(at)
        assert topic.expires_at == at
    assert not topic.delete(lambda: True)
    assert system.admin.metadata([STREAM])
    assert topic.delete()
    assert not topic.delete()
    assert system.admin.metadata([STREAM]) == {}


@having(DiscardsStaged)
def test_discarded_output_leaves_the_topic_as_it_was(system: TopicSystem, tmp_path: Path) -> None:
    assert isinstance(system, DiscardsStaged)
    system.admin.create([STREAM])
    publish(system, 0, {0: batch(0, 1)})
    files = sorted(tmp_path.rglob("*"))
    writer = system.producer(STREAM, "given up")
    writer.write(0, batch(1, 5))
    staged = writer.finish()
    for _ in range(2):
        system.discard(STREAM, staged)
    assert sorted(tmp_path.rglob("*")) == files
    assert system.admin.metadata([STREAM])[STREAM.name].head == (1, 0, 0)
