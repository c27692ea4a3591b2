"""The contract of systems of topics, run over every registered kind whose streams carry control messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
from airflow_samza.errors import ConfigError, SchemaError, TopicError
from airflow_samza.system_kinds import kinds
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.sections import described
from airflow_samza.systems.system import (
    ControlEnvelope,
    MessageRun,
    OffsetRange,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)
from tests.support.scalar_partitioner import partition_of
from tests.support.topic_contract import (
    STREAM,
    TopicSystem,
    batch,
    bound_topics,
    name_of,
    publish,
    ssp,
    systems_with,
    write_keyed,
)


@pytest.fixture(params=systems_with())
def system(request: pytest.FixtureRequest, tmp_path: Path) -> TopicSystem:
    return bound_topics(request, tmp_path)


def ids(system: TopicSystem, partition: int, offsets: OffsetRange | None = None) -> list[tuple[int, int]]:
    """(offset, id) of the user messages."""
    return list(_pairs(system, partition, offsets))


def _pairs(system: TopicSystem, partition: int, offsets: OffsetRange | None) -> Iterator[tuple[int, int]]:
    for envelope in system.consumer(STREAM).read(ssp(partition), offsets):
        if isinstance(envelope, MessageRun):
            for row, number in enumerate(envelope.batch.column("id").to_pylist()):
                yield envelope.offset + row, number


def test_another_owner_of_a_topic_is_rejected_whatever_it_wants(system: TopicSystem) -> None:
    mine = replace(STREAM, owner=("views", "1", "by-member", "run-1"))
    other = replace(STREAM, owner=("views-1-by", "1", "member", "run-1"))
    system.create([mine])
    system.create([mine, STREAM])  # whoever names no owner is not asked
    said = (
        "belongs to application 'views' with the id '1', stream 'by-member', run 'run-1', not to application "
        "'views-1-by'"
    )
    calls: list[Callable[[], object]] = [
        lambda: system.create([other]),
        lambda: system.slice(other),
        lambda: system.consumer(other),
        lambda: system.producer(other, "attempt"),
        lambda: system.check_writable(other),
        lambda: system.publish(other, Publication("app/run/stage", "1.1", 0, {})),
    ]
    for call in calls:
        with pytest.raises(TopicError, match=said):
            call()
    assert system.producer(mine, "attempt").finish()
    assert system.slice(mine)["partitions"] == 3


def test_a_topic_is_made_once_and_keeps_its_count(system: TopicSystem) -> None:
    assert system.metadata([STREAM]) == {}
    system.create([STREAM])
    system.create([STREAM])
    metadata = system.metadata([STREAM])[STREAM.name]
    assert (metadata.partitions, metadata.head, metadata.oldest) == (3, (0, 0, 0), (0, 0, 0))
    with pytest.raises(TopicError, match="has 3 partitions, not 4"):
        system.create([StreamSpec(STREAM.name, partitions=4)])
    with pytest.raises(TopicError, match="has the schema"):
        system.create([StreamSpec(STREAM.name, partitions=3, schema="id string")])
    with pytest.raises(TopicError, match="without a partition count"):
        system.create([StreamSpec("other")])
    for count in (0, 65_537, 10**9):
        with pytest.raises(TopicError, match=f"cannot have {count} partitions"):
            system.create([StreamSpec("other", partitions=count)])
    assert system.topics() == [STREAM.name]


def test_a_missing_topic_is_named(system: TopicSystem) -> None:
    for ask in (system.slice, system.consumer, system.check_writable, lambda stream: system.producer(stream, "a")):
        with pytest.raises(TopicError, match=r"no topic 'views/run 1/1\.1' in system 'topics'"):
            ask(STREAM)


def test_an_empty_topic_is_read_as_an_empty_table(system: TopicSystem) -> None:
    system.create([STREAM])
    consumer = system.consumer(STREAM)
    assert list(consumer.read(ssp(0), OffsetRange(0, 0))) == []
    assert consumer.schema is not None
    assert consumer.schema.empty_table().to_pydict() == {"id": [], "name": []}


def test_rows_are_read_back_in_order_at_their_offsets_with_control_messages_after_them(system: TopicSystem) -> None:
    system.create([STREAM])
    end = EndOfStreamMessage("task-0", 1, stream_id="views")
    first = publish(system, 0, {0: batch(0, 5), 2: batch(10, 2)}, (WatermarkMessage("task-0", 1, timestamp=9),))
    assert first["offsets"] == [[0, 6], [0, 1], [0, 3]]
    publish(system, 1, {0: batch(5, 1)}, (end,))
    envelopes = list(system.consumer(STREAM).read(ssp(0), None))
    assert [(envelope.offset, isinstance(envelope, ControlEnvelope)) for envelope in envelopes] == [
        (0, False),
        (5, True),
        (6, False),
        (7, True),
    ]
    assert ids(system, 0) == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (6, 5)]
    only_control = list(system.consumer(STREAM).read(ssp(1), None))
    assert only_control == [
        ControlEnvelope(ssp(1), 0, WatermarkMessage("task-0", 1, timestamp=9)),
        ControlEnvelope(ssp(1), 1, end),
    ]


def test_a_slice_is_cut_at_the_exact_message(system: TopicSystem) -> None:
    system.create([STREAM])
    publish(system, 0, {0: batch(0, 10)}, (WatermarkMessage("task-0", 1, timestamp=1),))
    publish(system, 1, {0: batch(10, 10)})
    assert ids(system, 0, OffsetRange(3, 7)) == [(3, 3), (4, 4), (5, 5), (6, 6)]
    assert ids(system, 0, OffsetRange(9, 12)) == [(9, 9), (11, 10)]
    assert ids(system, 0, OffsetRange(5, 5)) == []
    assert len(ids(system, 0, OffsetRange(0, 21))) == 20
    with pytest.raises(TopicError, match="does not reach to offset 22"):
        ids(system, 0, OffsetRange(0, 22))
    with pytest.raises(TopicError, match="no partition 3"):
        ids(system, 3)


def test_columns_are_read_in_the_order_asked_for(system: TopicSystem) -> None:
    system.create([STREAM])
    publish(system, 0, {0: batch(0, 3)})
    consumer = system.consumer(STREAM)
    for columns in (["name"], ["name", "id"], []):
        (run,) = consumer.read(ssp(0), OffsetRange(0, 3), columns)
        assert isinstance(run, MessageRun)
        assert run.batch.schema.names == columns
        assert run.batch.num_rows == 3
    with pytest.raises(TopicError, match="no column 'nmae'"):
        list(consumer.read(ssp(0), OffsetRange(0, 3), ["nmae"]))


def test_publishing_again_changes_nothing(system: TopicSystem) -> None:
    system.create([STREAM])
    first = publish(system, 0, {0: batch(0, 4)})
    again = publish(system, 0, {0: batch(0, 4)})
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert {**again, "bytes": 0} == {**first, "duplicate": True, "bytes": 0}
    assert len(ids(system, 0)) == 4


def test_nothing_is_seen_before_it_is_published_nor_after_an_abort(system: TopicSystem) -> None:
    system.create([STREAM])
    writer = system.producer(STREAM, "a")
    write_keyed(writer, batch(0, 100))
    writer.finish()
    aborted = system.producer(STREAM, "b")
    write_keyed(aborted, batch(0, 100))
    aborted.abort()
    assert system.metadata([STREAM])[STREAM.name].head == (0, 0, 0)


def test_keyed_rows_go_to_the_partition_of_their_key_in_their_order(system: TopicSystem) -> None:
    system.create([STREAM])
    writer = system.producer(STREAM, "a")
    for start in range(0, 1000, 100):
        write_keyed(writer, batch(start, 100))
    system.publish(STREAM, Publication("app/run/stage", "1.1", 0, {0: writer.finish()}))
    for partition in range(3):
        found = [number for _, number in ids(system, partition)]
        assert found == [number for number in range(1000) if partition_of((number,), ("bigint",), 3) == partition]


@pytest.mark.parametrize("system", [found for found in systems_with() if name_of(found) != "kafka"], indirect=True)
def test_tasks_come_one_after_the_other_whatever_order_they_were_staged_in(system: TopicSystem) -> None:
    system.create([STREAM])
    staged = {}
    for task in (1, 0):
        writer = system.producer(STREAM, f"task-{task}")
        writer.write(0, batch(task * 10, 2))
        staged[task] = writer.finish()
    system.publish(STREAM, Publication("app/run/stage", "1.1", 0, staged))
    assert ids(system, 0) == [(0, 0), (1, 1), (2, 10), (3, 11)]


def test_a_later_generation_supersedes_the_former_ones_output_and_never_its_offsets(system: TopicSystem) -> None:
    system.create([STREAM])
    publish(system, 0, {0: batch(0, 3)})
    publish(system, 0, {0: batch(100, 2)}, producer="somebody else")
    opened = system.consumer(STREAM)
    before = system.slice(STREAM)
    publish(system, 0, {0: batch(50, 4)}, generation="1.10")
    assert ids(system, 0) == [(3, 100), (4, 101), (5, 50), (6, 51), (7, 52), (8, 53)]
    metadata = system.metadata([STREAM])[STREAM.name]
    assert (metadata.oldest[0], metadata.head[0]) == (3, 9)
    for consumer in (
        opened,
        system.consumer(STREAM, before),
    ):  # who opened before keeps what it saw, and so does a retry of its slice
        runs = [envelope for envelope in consumer.read(ssp(0), None) if isinstance(envelope, MessageRun)]
        assert [number for run in runs for number in run.batch.column("id").to_pylist()] == [0, 1, 2, 100, 101]


def test_a_zombie_is_rejected_and_told_who_won(system: TopicSystem) -> None:
    system.create([STREAM])
    publish(system, 0, {0: batch(0, 3)}, generation="1.10")
    with pytest.raises(TopicError, match=r"Generation 1\.9 of app/run/stage may no longer write") as rejected:
        publish(system, 0, {0: batch(50, 4)}, generation="1.9")
    assert rejected.value.facts["winner"] == "1.10"
    assert len(ids(system, 0)) == 3
    with pytest.raises(ConfigError, match="'one' is not a generation"):
        publish(system, 0, {}, generation="one", producer="new")


def test_a_slice_reads_the_same_when_the_topic_has_grown(system: TopicSystem) -> None:
    system.create([STREAM])
    publish(system, 0, {0: batch(0, 3)})
    fixed = system.slice(STREAM)
    assert fixed["offsets"] == [[0, 3], [0, 0], [0, 0]]
    publish(system, 1, {0: batch(3, 3)})
    runs = [
        envelope for envelope in system.consumer(STREAM, fixed).read(ssp(0), None) if isinstance(envelope, MessageRun)
    ]
    assert sum(run.batch.num_rows for run in runs) == 3
    assert len(ids(system, 0)) == 6


def test_a_source_without_control_messages_ends_with_one_of_its_own(system: TopicSystem) -> None:
    system.append("plain", pa.table({"id": [1, 2, 3]}), key=["id"], partitions=2)
    for partition in range(2):
        *_, last = system.consumer(StreamSpec("plain")).read(SystemStreamPartition("topics", "plain", partition), None)
        assert isinstance(last, ControlEnvelope)
        assert last.message == EndOfStreamMessage(None, 1, stream_id="plain")
    system.create([STREAM])  # a stream that nobody has written to yet has not ended
    assert list(system.consumer(STREAM).read(ssp(0), None)) == []
    (end,) = system.consumer(STREAM, system.slice(STREAM)).read(
        ssp(0), None
    )  # but a slice of it, which says that this is all, has
    assert isinstance(end, ControlEnvelope)
    assert end.message == EndOfStreamMessage(None, 1, stream_id=STREAM.name)


def test_append_is_all_or_nothing_and_makes_the_topic_when_told_the_count(system: TopicSystem) -> None:
    with pytest.raises(TopicError, match="no topic"):
        system.append("plain", pa.table({"id": [1]}))
    facts = system.append("plain", pa.table({"id": [1, 2, 3]}), key=["id"], partitions=4)
    assert facts["rows"] == 3
    with pytest.raises(TopicError, match="need a key"):
        system.append("plain", pa.table({"id": [1]}))
    with pytest.raises(SchemaError, match="have the column other that it does not have"):
        system.append(
            "plain", iter([pa.record_batch({"id": [1]}), pa.record_batch({"id": [1], "other": [2]})]), key=["id"]
        )
    assert sum(system.metadata([StreamSpec("plain")])["plain"].head) == 3


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"id": [1]}, "lack the column name"),
        ({"id": [1], "name": ["a"], "more": [1]}, "have the column more that it does not have"),
        ({"id": ["x"], "name": ["a"]}, "Column 'id' .* is int64, and string cannot be written"),
        ({"id": [1.5], "name": ["a"]}, "Column 'id' .* is int64, and double cannot be written"),
    ],
)
def test_rows_of_another_shape_are_rejected_when_they_are_written(
    system: TopicSystem, rows: dict[str, list[object]], said: str
) -> None:
    system.create([STREAM])
    with pytest.raises(SchemaError, match=said):
        system.producer(STREAM, "a").write(0, pa.record_batch(rows))


def test_rows_that_fit_are_brought_into_the_topics_form(system: TopicSystem) -> None:
    system.create([STREAM])
    rows = pa.record_batch(
        {"name": pa.array(["a", "b", "a"]).dictionary_encode(), "id": pa.array([1, 2, 3], pa.int16())}
    )
    publish(system, 0, {0: rows})
    (run,) = system.consumer(STREAM).read(ssp(0), OffsetRange(0, 3))
    assert isinstance(run, MessageRun)
    assert run.batch.schema.equals(pa.schema({"id": pa.int64(), "name": pa.string()}))
    assert run.batch.to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "a"}]


def test_a_null_in_a_column_declared_not_null_is_rejected(system: TopicSystem) -> None:
    strict = StreamSpec("strict", partitions=1, schema="id bigint not null")
    system.create([strict])
    with pytest.raises(SchemaError, match="declared not null, and 1 of 2 rows have none"):
        system.producer(strict, "a").write(0, pa.record_batch({"id": [1, None]}))


def test_an_unknown_kind_of_system_is_rejected_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'lgo', which is not known") as rejected:
        bind_system("x", SystemBinding("lgo"), str(tmp_path))
    assert rejected.value.hint == f"Did you mean 'log'? The kinds are {', '.join(kinds())}."
    assert {"memory", "log", "files", "spark"} <= set(kinds())
    with pytest.raises(ConfigError, match="has no root"):
        bind_system("x", SystemBinding("log"), "")


def of_section(system: TopicSystem, slice_: dict[str, object], partition: int = 0) -> list[object]:
    """The messages that a reader of sections sees: ids of messages, and control messages."""
    found: list[object] = []
    for envelope in system.consumer(STREAM, slice_).read(ssp(partition), None):
        if isinstance(envelope, MessageRun):
            found += envelope.batch.column("id").to_pylist()
        else:
            found.append(envelope.message)
    return found


def sections_slice(system: TopicSystem, *runs: str) -> dict[str, object]:
    chosen = [described(section) for section in system.sections(STREAM) if section.run in runs]
    return {**system.slice(STREAM), "sections": chosen}


def test_a_reader_of_a_section_sees_one_run_of_an_interleaved_stream(system: TopicSystem) -> None:
    system.create([STREAM])
    end = {run: EndOfStreamMessage("task-0", 1, run, "shared") for run in ("monday", "tuesday")}
    publish(system, 0, {0: batch(0, 2)}, producer="views/monday/stage")
    publish(system, 0, {0: batch(10, 2)}, producer="views/tuesday/stage")
    publish(system, 1, {0: batch(2, 2)}, (end["monday"],), producer="views/monday/stage")
    system.append(STREAM.name, pa.Table.from_batches([batch(99, 3)]), key=["id"])
    assert [(s.run, s.is_complete) for s in system.sections(STREAM)] == [
        ("views/monday", True),
        ("views/tuesday", False),
    ]
    last = EndOfStreamMessage(None, 1, stream_id=STREAM.name)
    assert of_section(system, sections_slice(system, "views/monday")) == [0, 1, 2, 3, last]
    publish(system, 1, {0: batch(12, 1)}, (end["tuesday"],), producer="views/tuesday/stage")
    assert of_section(system, sections_slice(system, "views/tuesday")) == [10, 11, 12, last]
    assert of_section(system, sections_slice(system, "views/monday", "views/tuesday")) == [0, 1, 10, 11, 2, 3, 12, last]


def test_a_section_is_what_its_newest_generation_wrote(system: TopicSystem) -> None:
    system.create([STREAM])
    end = EndOfStreamMessage("task-0", 1, "monday", "shared")
    publish(system, 0, {0: batch(0, 2)}, (end,), producer="views/monday/stage")
    publish(system, 0, {0: batch(5, 1)}, (end,), "1.2", producer="views/monday/stage")
    assert [(s.generation, s.is_complete) for s in system.sections(STREAM)] == [("1.2", True)]
    assert of_section(system, sections_slice(system, "views/monday"))[:-1] == [5]


def test_a_later_epoch_of_a_reader_knows_the_ends_before_it(system: TopicSystem) -> None:
    system.create([STREAM])
    for run in ("monday", "tuesday"):
        publish(
            system,
            0,
            {0: batch(0, 2)},
            (EndOfStreamMessage("task-0", 1, run, "shared"),),
            producer=f"views/{run}/stage",
        )
    consumer = system.consumer(STREAM, sections_slice(system, "views/monday", "views/tuesday"))
    behind = [
        envelope.message
        for envelope in consumer.read(ssp(0), OffsetRange(3, 6))
        if isinstance(envelope, ControlEnvelope)
    ]
    assert behind == [EndOfStreamMessage(None, 1, stream_id=STREAM.name)]


def test_sections_that_end_a_slice_end_no_stream(system: TopicSystem) -> None:
    system.create([STREAM])
    publish(
        system,
        0,
        {0: batch(0, 1)},
        (EndOfStreamMessage("task-0", 1, "monday", "shared"),),
        producer="views/monday/stage",
    )
    slice_ = {**sections_slice(system, "views/monday"), "sections_final": False}
    assert of_section(system, slice_)[-1] == EndOfStreamMessage(None, 1, stream_id=STREAM.name, final=False)
