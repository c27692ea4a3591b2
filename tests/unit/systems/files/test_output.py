"""Writing the system files: staging, publishing from any point again, superseding, rejections."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import ConfigError, SchemaError, StorageFull, StorageUnavailable, TopicError
from airflow_samza.quoting import show_messages
from airflow_samza.schema import Schema
from airflow_samza.systems.files.formats import parquet_output
from airflow_samza.systems.files.formats.options import FORMATS
from airflow_samza.systems.files.formats.parquet_output import ParquetOutput, dictionary_columns
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import (
    MessageRun,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemProducer,
    SystemStreamPartition,
)
from tests.support.faulty_arrow import FaultyHandler

STREAM = StreamSpec("out", schema="id bigint", format="parquet")


class Crash(Exception):
    """The process died here."""


def system(root: Path, handler: FaultyHandler | None = None) -> FilesSystem:
    place = Location(pafs.PyFileSystem(handler), str(root)) if handler is not None else None
    return FilesSystem("lake", SystemBinding("files", {"root": str(root)}), location=place)


def stage(root: Path, attempt: str, ids: list[int], stream: StreamSpec = STREAM) -> dict[str, Any]:
    producer = system(root).producer(stream, attempt)
    producer.write(0, pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())}))
    described: dict[str, Any] = json.loads(json.dumps(producer.finish()))
    return described


def visible(root: Path, name: str = "out") -> list[int]:
    """The rows that any other engine sees: all files that are not hidden."""
    return sorted(i for path in (root / name).glob("*.parquet") for i in pq.read_table(path)["id"].to_pylist())


def ours(root: Path, name: str = "out") -> list[int]:
    """The rows that this system's own reader sees."""
    consumer = system(root).consumer(StreamSpec(name, schema="id bigint", options=(("allow_missing_path", "true"),)))
    found = consumer.read(SystemStreamPartition("lake", name, 0), None)
    return sorted(i for e in found if isinstance(e, MessageRun) for i in e.batch.column("id").to_pylist())


def everything(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def publication(
    staged: dict[int, dict[str, Any]], generation: str = "1.1", *, producer: str = "app/run/stage", epoch: int = 0
) -> Publication:
    return Publication(producer, generation, epoch, staged)


def test_nothing_is_visible_before_it_is_published(tmp_path: Path) -> None:
    staged = {0: stage(tmp_path, "a0", [1]), 1: stage(tmp_path, "a1", [2, 3])}
    assert visible(tmp_path) == ours(tmp_path) == []
    facts = system(tmp_path).publish(STREAM, publication(staged))
    assert visible(tmp_path) == ours(tmp_path) == [1, 2, 3]
    assert (facts["rows"], facts["superseded"]) == (3, [])
    assert facts["bytes"] == sum((tmp_path / "out" / name).stat().st_size for name in facts["files"])
    assert not any((tmp_path / "out/_samza/staging").iterdir())


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    work = publication({0: stage(tmp_path, "a0", [1]), 1: stage(tmp_path, "a1", [2])})
    first = system(tmp_path).publish(STREAM, work)
    before = everything(tmp_path)
    assert system(tmp_path).publish(STREAM, work) == first
    assert everything(tmp_path) == before


def test_a_crash_at_any_operation_of_publishing_is_made_good_by_publishing_again(tmp_path: Path) -> None:
    def prepared(root: Path) -> Publication:
        system(root).publish(STREAM, publication({0: stage(root, "old0", [100]), 1: stage(root, "old1", [101])}, "1.1"))
        return publication({0: stage(root, "new0", [1]), 1: stage(root, "new1", [2])}, "1.2")

    def died_at(root: Path, point: int, *, after: bool) -> bool:
        """Publishes until the operation of that number; whether it came to it."""
        seen = 0

        def tick(name: str) -> None:
            nonlocal seen
            seen += 1
            if seen == point:
                raise Crash(name)

        handler = FaultyHandler((lambda name: None) if after else tick, after=tick if after else (lambda name: None))
        work = prepared(root)
        try:
            system(root, handler).publish(STREAM, work)
        except Crash:
            # Our own readers see one generation or the other, never a mixture.
            assert ours(root) in ([100, 101], [1, 2])
            system(root).publish(STREAM, work)
            died = True
        else:
            died = False
        assert visible(root) == ours(root) == [1, 2]
        assert [path.name for path in (root / "out/_samza/manifests").iterdir()] == [final_manifest]
        return died

    reference = tmp_path / "reference"
    reference.mkdir()
    system(reference).publish(STREAM, prepared(reference))
    [final_manifest] = [path.name for path in (reference / "out/_samza/manifests").iterdir()]
    for after in (False, True):
        point = 1
        while True:
            root = tmp_path / f"{after}-{point}"
            root.mkdir()
            if not died_at(root, point, after=after):
                break
            left = {name for name in everything(root) if "draft-" not in name}
            assert left == set(everything(reference)), f"after operation {point}"
            point += 1
        assert point > 8  # moves, manifest, removals: there were many places to die at


def test_a_file_that_a_crash_has_left_half_copied_is_not_taken_as_published(tmp_path: Path) -> None:
    """The staged file stands beside it still, where a move is copy and delete."""
    (name,) = system(tmp_path / "other").publish(STREAM, publication({0: stage(tmp_path / "other", "a0", [1, 2])}))[
        "files"
    ]
    whole = (tmp_path / "other/out" / name).read_bytes()
    work = publication({0: stage(tmp_path / "lake", "a0", [1, 2])})
    (tmp_path / "lake/out" / name).write_bytes(whole[: len(whole) // 2])
    system(tmp_path / "lake").publish(STREAM, work)
    assert (tmp_path / "lake/out" / name).read_bytes() == whole
    assert visible(tmp_path / "lake") == ours(tmp_path / "lake") == [1, 2]


def test_a_higher_generation_supersedes_and_a_lower_one_is_rejected(tmp_path: Path) -> None:
    first = publication({0: stage(tmp_path, "a", [1, 2]), 1: stage(tmp_path, "b", [3])}, "1.9")
    late = publication({0: stage(tmp_path, "c", [7])}, "1.9", epoch=1)
    second = publication({0: stage(tmp_path, "d", [4])}, "1.10")
    system(tmp_path).publish(STREAM, first)
    facts = system(tmp_path).publish(STREAM, second)
    assert len(facts["superseded"]) == 2
    assert visible(tmp_path) == [4]
    for stale in (first, late):
        with pytest.raises(
            TopicError, match=r"Generation 1\.9 of app/run/stage cannot publish .* generation 1\.10 of it has published"
        ):
            system(tmp_path).publish(STREAM, stale)
    assert visible(tmp_path) == ours(tmp_path) == [4]


def test_a_lower_generation_that_published_at_the_same_time_withdraws(tmp_path: Path) -> None:
    old = publication({0: stage(tmp_path, "a", [1])}, "1.1")
    new = publication({0: stage(tmp_path, "b", [2])}, "1.2")
    moves = 0

    def overtake(name: str) -> None:
        nonlocal moves
        moves += name == "move"
        if name == "move" and moves == 2:  # the old one's manifest is about to be written
            system(tmp_path).publish(STREAM, new)

    with pytest.raises(TopicError, match=r"generation 1\.2 of it has published"):
        system(tmp_path, FaultyHandler(overtake)).publish(STREAM, old)
    assert visible(tmp_path) == ours(tmp_path) == [2]


def test_epochs_runs_and_streams_add_up_in_one_directory(tmp_path: Path) -> None:
    other = StreamSpec("other", path="out", schema="id bigint")
    works = [
        (STREAM, publication({0: stage(tmp_path, "a", [1])}, epoch=0)),
        (STREAM, publication({0: stage(tmp_path, "b", [2])}, epoch=1)),
        (STREAM, publication({0: stage(tmp_path, "c", [3])}, producer="app/tomorrow/stage")),
        (other, publication({0: stage(tmp_path, "d", [4], other)})),
    ]
    for stream, work in works:
        system(tmp_path).publish(stream, work)
    assert visible(tmp_path) == ours(tmp_path) == [1, 2, 3, 4]
    system(tmp_path).publish(STREAM, publication({0: stage(tmp_path, "e", [5])}, "2.1"))
    assert visible(tmp_path) == ours(tmp_path) == [3, 4, 5]


@pytest.mark.parametrize("format_name", FORMATS)
def test_output_without_rows_keeps_the_directory_readable(tmp_path: Path, format_name: str) -> None:
    stream = StreamSpec("out", schema="id bigint, name string", format=format_name)
    staged = {}
    for task in (0, 1):
        producer = system(tmp_path).producer(stream, f"a{task}")
        producer.write(
            0, pa.RecordBatch.from_pydict({"id": pa.array([], pa.int64()), "name": pa.array([], pa.string())})
        )
        staged[task] = producer.finish()
        assert staged[task]["files"] == []
    work = publication(staged)
    facts = system(tmp_path).publish(stream, work)
    assert facts == system(tmp_path).publish(stream, work)
    assert [name.rpartition(".")[2] for name in facts["files"]] == [format_name]
    assert facts["files"][0].startswith("part-00000-")
    found = list(system(tmp_path).consumer(stream).read(SystemStreamPartition("lake", "out", 0), None))
    assert len(found) == 1


def test_epochs_of_one_generation_add_up_and_only_the_first_and_the_last_tidy_up(tmp_path: Path) -> None:
    system(tmp_path).publish(STREAM, publication({0: stage(tmp_path, "older", [9])}))
    told = []
    for epoch, ids in enumerate([[1], [2, 3], []]):
        work = publication({0: stage(tmp_path, f"try-{epoch}", ids)}, "1.2", epoch=epoch)
        told.append(system(tmp_path).publish(STREAM, work._replace(final=epoch == 2)))
    assert [len(facts["superseded"]) for facts in told] == [1, 0, 0]
    assert [len(facts["files"]) for facts in told] == [1, 1, 0]  # the last epoch has no rows, and needs no empty file
    assert visible(tmp_path) == ours(tmp_path) == [1, 2, 3]
    assert not any((tmp_path / "out/_samza/staging").iterdir())


def test_one_task_with_rows_needs_no_empty_files(tmp_path: Path) -> None:
    empty = system(tmp_path).producer(STREAM, "a").finish()
    facts = system(tmp_path).publish(STREAM, publication({0: empty, 1: stage(tmp_path, "b", [1])}))
    assert [name[:10] for name in facts["files"]] == ["part-00001"]


def test_rows_are_gathered_into_row_groups_of_128k(tmp_path: Path) -> None:
    producer = system(tmp_path).producer(STREAM, "a")
    for _ in range(50):
        producer.write(0, pa.RecordBatch.from_pydict({"id": pa.array(range(6000), pa.int64())}))
    facts = system(tmp_path).publish(STREAM, publication({0: producer.finish()}))
    metadata = pq.ParquetFile(tmp_path / "out" / facts["files"][0]).metadata
    assert [metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)] == [
        131_072,
        131_072,
        37_856,
    ]
    assert metadata.row_group(0).column(0).compression == "SNAPPY"


def test_only_columns_whose_values_repeat_get_a_dictionary(tmp_path: Path) -> None:
    stream = StreamSpec("out", schema="id bigint, kind string, `a.b` int", format="parquet")
    ids = list(range(1000))
    producer = system(tmp_path).producer(stream, "a")
    producer.write(
        0,
        pa.RecordBatch.from_pydict(
            {"id": ids, "kind": [f"k{i % 9}" for i in ids], "a.b": pa.array([1] * 1000, pa.int32())}
        ),
    )
    facts = system(tmp_path).publish(stream, publication({0: producer.finish()}))
    group = pq.ParquetFile(tmp_path / "out" / facts["files"][0]).metadata.row_group(0)
    assert [group.column(place).has_dictionary_page for place in range(3)] == [False, True, True]


def test_floats_at_any_depth_get_no_statistics(tmp_path: Path) -> None:
    ddl = "id bigint, x double, s struct<n:int,f:float>, l array<double>, m map<string,float>"
    stream = StreamSpec("out", schema=ddl, format="parquet")
    row = {"id": 1, "x": 1.5, "s": {"n": 1, "f": 1.5}, "l": [1.5], "m": [("a", 1.5)]}
    producer = system(tmp_path).producer(stream, "a")
    producer.write(0, pa.RecordBatch.from_pylist([row], Schema.of(ddl).to_arrow()))
    facts = system(tmp_path).publish(stream, publication({0: producer.finish()}))
    group = pq.ParquetFile(tmp_path / "out" / facts["files"][0]).metadata.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    assert [c.path_in_schema for c in columns if c.statistics is not None] == ["id", "s.n", "m.key_value.key"]


def test_a_value_that_csv_cannot_hold_is_not_shown_where_messages_are_not(tmp_path: Path) -> None:
    stream = StreamSpec("out", schema="v string", format="csv", options=(("multiline", "false"),))
    show_messages(False)
    try:
        with pytest.raises(SchemaError, match=r"Column 'v' has a line end in .*, which CSV with these") as caught:
            system(tmp_path).producer(stream, "a").write(0, pa.RecordBatch.from_pydict({"v": ["a secret\n"]}))
    finally:
        show_messages(True)
    assert "secret" not in str(caught.value)


def test_an_aborted_attempt_leaves_nothing(tmp_path: Path) -> None:
    producer = system(tmp_path).producer(STREAM, "a")
    producer.write(0, pa.RecordBatch.from_pydict({"id": [1]}))
    producer.abort()
    producer.abort()
    assert everything(tmp_path) == {}


def test_attempts_never_share_a_file(tmp_path: Path) -> None:
    first, second = stage(tmp_path, "run/1", [1]), stage(tmp_path, "run/2", [2])
    assert first["files"][0]["path"] != second["files"][0]["path"]
    system(tmp_path).publish(STREAM, publication({0: second}))
    assert visible(tmp_path) == [2]


def test_staged_files_that_are_gone_are_said_to_be(tmp_path: Path) -> None:
    staged = stage(tmp_path, "a", [1])
    (tmp_path / "out" / staged["files"][0]["path"]).unlink()
    with pytest.raises(TopicError, match="is gone before it was published") as caught:
        system(tmp_path).publish(STREAM, publication({0: staged}))
    assert "Clear the stage" in caught.value.hint


def test_an_output_that_cannot_be_written_is_rejected_early(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("x")
    with pytest.raises(TopicError, match="is a file, and a directory is needed"):
        system(tmp_path).check_writable(StreamSpec("taken"))
    with pytest.raises(TopicError, match="a file is where a directory should be"):
        system(tmp_path).check_writable(StreamSpec("taken/below"))
    with pytest.raises(TopicError, match="has a glob in it"):
        system(tmp_path).check_writable(StreamSpec("out", path="day=*/x"))
    with pytest.raises(SchemaError, match="CSV cannot hold"):
        system(tmp_path).check_writable(StreamSpec("out", format="csv", schema="a array<int>"))
    with pytest.raises(SchemaError, match="name Avro does not allow"):
        system(tmp_path).check_writable(StreamSpec("out", format="avro", schema="`a b` int"))
    with pytest.raises(SchemaError, match="keys are not strings"):
        system(tmp_path).check_writable(StreamSpec("out", format="json", schema="m map<int,int>"))

    def reject(name: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(TopicError, match="does not allow writing") as caught:
        system(tmp_path, FaultyHandler(reject)).check_writable(STREAM)
    assert not caught.value.retryable
    system(tmp_path).check_writable(STREAM)
    assert everything(tmp_path / "out") == {}


@pytest.mark.parametrize("operation", ["create_dir", "open_output_stream", "move"])
def test_a_full_disk_is_storage_full_and_can_be_tried_again(tmp_path: Path, operation: str) -> None:
    def full(name: str) -> None:
        if name == operation:
            raise OSError(errno.ENOSPC, "No space left on device")

    staged = {0: stage(tmp_path, "a", [1])}
    with pytest.raises(StorageFull, match="no room left to write") as caught:
        system(tmp_path, FaultyHandler(full)).publish(STREAM, publication(staged))
    assert caught.value.retryable
    if operation != "move":
        producer = system(tmp_path, FaultyHandler(full)).producer(STREAM, "b")
        with pytest.raises(StorageFull):
            producer.write(0, pa.RecordBatch.from_pydict({"id": [1]}))
        producer.abort()
    system(tmp_path).publish(STREAM, publication(staged))
    assert visible(tmp_path) == ours(tmp_path) == [1]


def write_a_million(producer: SystemProducer) -> None:
    for _ in range(10):
        producer.write(0, pa.RecordBatch.from_pydict({"id": pa.array(range(100_000), pa.int64())}))
    producer.finish()


def test_a_disk_that_fills_up_while_writing_is_storage_full(tmp_path: Path) -> None:
    staged = tmp_path / "out" / stage(tmp_path, "a", [1])["files"][0]["path"]
    staged.unlink()
    staged.symlink_to("/dev/full")
    producer = system(tmp_path).producer(STREAM, "a")
    with pytest.raises(StorageFull):
        write_a_million(producer)
    producer.abort()


@pytest.mark.parametrize("link", ["_samza", "_samza/staging", "_samza/manifests", "_samza/slots"])
def test_publishing_deletes_nothing_behind_a_link_among_the_records_of_an_output(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, link: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    for name in ("diary.txt", "staging/diary.txt", "a.parquet"):
        (outside / name).parent.mkdir(exist_ok=True)
        (outside / name).write_text("mine")
        os.utime(outside / name, (0, 0))
    before = everything(outside)
    staged = stage(tmp_path, "a", [1])
    place = tmp_path / "out" / link
    if place.exists():
        place.rename(tmp_path / "former")
    place.symlink_to(outside)
    for write in (
        lambda: system(tmp_path).publish(STREAM, publication({0: staged})),
        lambda: stage(tmp_path, "b", [2]),
        lambda: system(tmp_path).check_writable(STREAM),
    ):
        with suppress(TopicError):
            write()
    with pytest.raises(TopicError, match=f"out/{link} is a link, and links in the folder of an output's records"):
        system(tmp_path).publish(STREAM, publication({0: staged}))
    assert everything(outside) == before


def test_a_storage_that_does_not_answer_can_be_tried_again(tmp_path: Path) -> None:
    def fail(name: str) -> None:
        raise TimeoutError("timed out")

    with pytest.raises(StorageUnavailable, match="timed out") as caught:
        system(tmp_path, FaultyHandler(fail)).check_writable(STREAM)
    assert caught.value.retryable


def test_batches_of_another_schema_than_declared_are_rejected_or_widened(tmp_path: Path) -> None:
    producer = system(tmp_path).producer(STREAM, "a")
    producer.write(0, pa.RecordBatch.from_pydict({"extra": ["x"], "id": pa.array([1], pa.int32())}))
    with pytest.raises(SchemaError, match="'id' as string, and it is declared as bigint"):
        producer.write(0, pa.RecordBatch.from_pydict({"id": ["1"]}))
    strict = system(tmp_path).producer(StreamSpec("out", schema="id bigint not null"), "b")
    with pytest.raises(SchemaError, match="declared not null"):
        strict.write(0, pa.RecordBatch.from_pydict({"id": pa.array([None], pa.int64())}))


def test_files_copied_without_our_records_are_ordinary_files(tmp_path: Path) -> None:
    facts = system(tmp_path).publish(STREAM, publication({0: stage(tmp_path, "a", [1])}))
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / facts["files"][0]).write_bytes((tmp_path / "out" / facts["files"][0]).read_bytes())
    assert ours(tmp_path, "copy") == [1]


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    system(tmp_path).publish(STREAM, publication({0: stage(tmp_path, "a", [1])}))
    [manifest] = (tmp_path / "out/_samza/manifests").iterdir()
    manifest.write_text("{")
    with pytest.raises(TopicError, match=r"manifest .* is damaged"):
        ours(tmp_path)


def test_a_generation_that_is_no_number_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'x' is not a generation"):
        system(tmp_path).publish(STREAM, publication({}, "x"))


def test_a_dictionary_is_written_for_columns_whose_first_rows_repeat() -> None:
    rows = 300_000
    table = pa.table(
        {
            "id": pa.array(range(rows)),
            "country": ["nl", "de"] * (rows // 2),
            "late": [n if n > 200_000 else 0 for n in range(rows)],
        }
    )
    assert dictionary_columns(table) == ["country", "late"]


@pytest.mark.parametrize("values", [1, 100, 16_384, 16_385, 40_000, 200_000])
def test_few_rows_decide_about_a_dictionary_as_all_would(values: int) -> None:
    numbers = pa.array([n * 7919 % values for n in range(131_072)])
    columns = {"spread": numbers, "sorted": numbers.sort(), "texts": numbers.cast(pa.string())}
    worth = [name for name, column in columns.items() if len(column.unique()) <= 131_072 // 8]
    assert dictionary_columns(pa.table(columns)) == worth


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("values", [200, 20_000])
@pytest.mark.parametrize("at", ["lowest", "highest"])
def test_so_they_do_about_integers_of_each_type(kind: str, values: int, at: str) -> None:
    bounds = np.iinfo(kind)
    values = min(values, bounds.max - bounds.min + 1)
    first = bounds.min if at == "lowest" else bounds.max - values + 1
    numbers = pa.array([None, *(first + n * 7919 % values for n in range(131_071))], kind)
    table = pa.table(
        {"n": pa.chunked_array([numbers.slice(0, 100), numbers.slice(100)]), "none": pa.nulls(131_072, kind)}
    )
    assert dictionary_columns(table) == (["n", "none"] if values <= 131_072 // 8 else ["none"])


@pytest.mark.parametrize("rows", [7, 1, 5_000])
@pytest.mark.few(1)
def test_small_batches_are_written_as_one(tmp_path: Path, rows: int) -> None:
    schema = pa.schema(
        [("n", pa.int64()), ("text", pa.string()), ("word", pa.string()), ("list", pa.list_(pa.int32()))]
    )
    expected: list[dict[str, Any]] = []
    with pa.OSFile(str(tmp_path / "out.parquet"), "wb") as sink:
        output = ParquetOutput(sink, schema, "snappy")
        for start in range(0, 20 * rows, rows):
            numbers = range(start, start + rows)
            words = [("a", None, f"b{start % 3}")[n % 3] for n in numbers]
            lists = [[n, None] if n % 4 else None for n in numbers]
            columns = [list(numbers), [f"t{n}" for n in numbers], words, lists]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            expected += pa.RecordBatch.from_arrays(arrays, schema=schema).to_pylist()
            arrays[2] = arrays[2].dictionary_encode()
            output.write(pa.RecordBatch.from_arrays(arrays, names=schema.names))
        output.close()
    written = pq.ParquetFile(tmp_path / "out.parquet")
    assert written.metadata.num_row_groups == 1
    assert written.read().to_pylist() == expected


def with_dictionary(texts: list[str | None], values: list[str]) -> pa.RecordBatch:
    """A batch of texts whose dictionary has more values than the rows use."""
    places = pa.array([None if text is None else values.index(text) for text in texts], pa.int32())
    return pa.RecordBatch.from_pydict({"place": pa.DictionaryArray.from_arrays(places, pa.array(values))})


BATCHES = [
    with_dictionary(["nl", None] * 40, ["zz", "nl", "aa"]),
    with_dictionary(["de", "nl"] * 40, ["nl", "de", "zzz"]),
    pa.RecordBatch.from_pydict({"place": pa.array(["fr"] * 80)}),
    with_dictionary(["be"] * 80, ["be"]),
]
TEXTS = [text for batch in BATCHES for text in batch.column(0).to_pylist()]


def places(root: Path, batches: list[pa.RecordBatch], schema: str | None = "place string") -> pq.ParquetFile:
    producer = system(root).producer(StreamSpec("out", schema=schema, format="parquet"), "try")
    for batch in batches:
        producer.write(0, batch)
    described = producer.finish()
    assert described["schema"] == "place string"
    return pq.ParquetFile(root / "out" / described["files"][0]["path"])


def test_texts_with_dictionaries_are_read_as_they_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_output, "ROW_GROUP_ROWS", 120)
    assert places(tmp_path, BATCHES).read().column("place").to_pylist() == TEXTS


@pytest.mark.parametrize("schema", ["place string", None])
def test_other_readers_find_plain_texts_where_dictionaries_came(tmp_path: Path, schema: str | None) -> None:
    assert places(tmp_path, BATCHES, schema).schema_arrow.equals(pa.schema([("place", pa.string())]))


def test_arrows_description_of_columns_is_as_without_dictionaries(tmp_path: Path) -> None:
    described = [
        places(tmp_path / name, batches).metadata.metadata[b"ARROW:schema"]
        for name, batches in {"with": BATCHES[:1], "without": BATCHES[2:3]}.items()
    ]
    assert described[0] == described[1]


def test_all_rows_of_several_dictionaries_are_places_in_one(tmp_path: Path) -> None:
    column = places(tmp_path, BATCHES[:2] * 200).metadata.row_group(0).column(0)
    assert column.has_dictionary_page
    assert column.total_uncompressed_size < 160 * 200 / 2, "a few bits each, where plain texts have six bytes"


def test_least_and_greatest_texts_are_those_of_rows_not_of_dictionaries(tmp_path: Path) -> None:
    statistics = places(tmp_path, BATCHES[:2]).metadata.row_group(0).column(0).statistics
    assert (statistics.min, statistics.max, statistics.null_count) == ("de", "nl", 40)


def test_a_dictionary_that_is_longer_than_its_rows_is_not_held(tmp_path: Path) -> None:
    few = with_dictionary(["7"], [str(number) for number in range(10_000)])
    output = ParquetOutput(pa.BufferOutputStream(), pa.schema([("place", pa.string())]), "none")
    output.write(few)
    assert output.size < 100
    assert places(tmp_path, [few] * 3).read().column("place").to_pylist() == ["7"] * 3
