"""Tables and files that Spark writes, with the same batches published twice: what each claims, it keeps.

Delta is the real one: its jars come from Maven (``scripts/setup-jars.sh delta``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.engine.stage_context import StageContext
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.bound_systems import bind_systems
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.schema import Schema
from airflow_samza.spark.sessions.classic_session import ClassicSession
from airflow_samza.spark.spark_engine import SparkEngine
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.spark.system import SparkSystem
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from tests.spark.conftest import APPS
from tests.support.spark_sources import spark_with_delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(900)]

COLUMNS = "n bigint, day string"
DAYS = ("mon", "tue", "wed")
EPOCH = 5
EPOCHS = 3
DERBY = {"driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}


@dataclass(frozen=True)
class Output:
    """An output, the statement that makes its table before, and the number of rows that three epochs leave in it.

    Each has five rows, and is published twice.
    """

    claims_exactly_once: bool
    rows: int
    format: str | None = None
    mode: str = "append"
    table: str | None = None
    before: str | None = None

    @property
    def options(self) -> dict[str, str]:
        more = {} if self.table is None else {"table": self.table}
        return {"mode": self.mode, "partition_by": "day", **more} if self.mode != "append" else more


ONCE, AGAIN = EPOCH * EPOCHS, EPOCH * EPOCHS * 2
REPLACES = ("overwrite", "overwrite_partitions")

OUTPUTS = {
    "parquet files": Output(False, AGAIN, "parquet"),
    "orc files": Output(False, AGAIN, "orc"),
    "delta files": Output(True, ONCE, "delta"),
    "delta files, in capitals": Output(True, ONCE, "DELTA"),
    "a table of parquet": Output(False, AGAIN, table="t", before=f"CREATE TABLE t ({COLUMNS}) USING parquet"),
    "a table that Spark makes": Output(False, AGAIN, table="t"),
    "a table of delta": Output(True, ONCE, "delta", table="t", before=f"CREATE TABLE t ({COLUMNS}) USING delta"),
    "a table of delta that Spark makes": Output(True, ONCE, "delta", table="t"),
    "a table of delta that nobody declared so": Output(
        False, ONCE, table="t", before=f"CREATE TABLE t ({COLUMNS}) USING delta"
    ),
    "a table of delta that was declared otherwise": Output(
        False, ONCE, "parquet", table="t", before=f"CREATE TABLE t ({COLUMNS}) USING delta"
    ),
    "a table of delta by its path": Output(
        True,
        ONCE,
        "delta",
        table="delta.`{folder}/lake`",
        before=f"CREATE TABLE t ({COLUMNS}) USING delta LOCATION '{{folder}}/lake'",
    ),
    "a table of a database": Output(False, AGAIN, "jdbc", table="numbers"),
    "a table of a database, replaced": Output(True, ONCE, "jdbc", "overwrite", "numbers"),
    "a table of a database, upserted": Output(True, ONCE, "jdbc", "upsert", "numbers"),
    **{
        f"{format} files, {mode}": Output(True, ONCE, format, mode)
        for format in ("parquet", "delta")
        for mode in REPLACES
    },
    **{
        f"a table of {format}, {mode}": Output(
            True,
            ONCE,
            format,
            mode,
            "t",
            f"CREATE TABLE t ({COLUMNS}) USING {format} PARTITIONED BY (day)",
        )
        for format in ("parquet", "delta")
        for mode in REPLACES
    },
}


class Publishing:
    """A system of kind spark with a real session, and epochs that are published to an output of it."""

    def __init__(self, session: ClassicSession, folder: Path) -> None:
        self.session = session
        self.folder = folder
        database = {"format": "jdbc", "url": f"jdbc:derby:{folder / 'db'};create=true", **DERBY}
        bindings = {
            "warehouse": SystemBinding("spark", {"root": str(folder / "data")}),
            "files": SystemBinding("spark", {"root": str(folder / "data")}),
            "catalog": SystemBinding("spark"),
            "db": SystemBinding("spark", database),
        }
        root = str(folder / "root")
        run = SparkRuntime(root, bindings).prepare(RunRequest("samza_spark_apps.spark_system:copies", "r1"))
        files = open_filesystem(root)
        request = StageRequest(run.plan.stages[0].stage_id, "1.1", 1)
        attempt = AttemptState(files, RunFolder(run.application, run.run_id), request)
        systems = bind_systems(bindings, root)
        self.context = StageContext(files, bindings, attempt, {}, systems, run)
        SparkEngine(session).connect(self.context)

    @property
    def spark(self) -> SparkSession:
        return self.session._session

    def stream(self, output: Output) -> StreamSpec:
        format = None if output.format == "jdbc" else output.format
        options = {name: text.format(folder=self.folder) for name, text in output.options.items()}
        key = ("n",) if output.mode == "upsert" else ()
        said, through = tuple(options.items()), "a-1-out/r1/1.1"
        return StreamSpec("out", 2, COLUMNS, key=key, format=format, options=said, written=True, through=through)

    def system(self, output: Output) -> SparkSystem:
        name = "db" if output.format == "jdbc" else "files" if output.table is None else "catalog"
        system = self.context.systems[name]
        assert isinstance(system, SparkSystem)
        return system

    def publish_twice(self, system: SparkSystem, spec: StreamSpec) -> None:
        """Publishes three epochs, each twice: somebody has died between the write and the record of it."""
        system.create([spec])
        for number in range(EPOCHS):
            staged = self._staged(system, spec, number)
            publication = Publication("app/run/stage", "1.1", number, {0: staged}, final=number == EPOCHS - 1)
            for _ in range(2):
                system.publish(spec, publication)
                system.log.filesystem.delete(system._record(spec, publication))

    def _staged(self, system: SparkSystem, spec: StreamSpec, number: int) -> dict[str, Any]:
        producer = system.producer(spec, f"attempt-{number}")
        for partition in range(2):
            numbers = list(range(number * EPOCH + partition, (number + 1) * EPOCH, 2))
            days = [DAYS[n % 3] for n in numbers]
            producer.write(partition, pa.record_batch({"n": pa.array(numbers, pa.int64()), "day": days}))
        return producer.finish()

    def written(self, system: SparkSystem, spec: StreamSpec) -> list[int]:
        table = system.table(spec)
        if table.format == "jdbc":
            found = self.spark.read.format("jdbc").options(**table.options, dbtable=table.table).load()
        elif table.path is not None:
            found = self.spark.read.format(table.format or "parquet").load(table.path)
        else:
            assert table.table is not None
            found = self.spark.newSession().table(table.table)  # an older one remembers which files were there
        return sorted(row["n"] for row in found.collect())


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClassicSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(APPS))
        with spark_with_delta(tmp_path_factory.mktemp("session")) as made:
            yield made


@pytest.fixture
def publishing(session: ClassicSession, tmp_path: Path) -> Publishing:
    session._session.sql("DROP TABLE IF EXISTS t")
    return Publishing(session, tmp_path)


@pytest.mark.nightly
def test_a_run_of_another_root_is_not_taken_for_a_repeat_of_its_namesake(
    session: ClassicSession, tmp_path: Path
) -> None:
    output = OUTPUTS["a table of delta that Spark makes"]
    session._session.sql("DROP TABLE IF EXISTS t")
    for name in ("here", "there"):
        publishing = Publishing(session, tmp_path / name)
        system, spec = publishing.system(output), publishing.stream(output)
        publishing.publish_twice(system, spec)
    assert publishing.written(system, spec) == sorted([*range(ONCE), *range(ONCE)])


@pytest.mark.nightly
@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_keeps_what_it_claims_when_a_batch_is_published_twice(publishing: Publishing, name: str) -> None:
    output = OUTPUTS[name]
    if output.before is not None:
        publishing.spark.sql(output.before.format(folder=publishing.folder))
    system, spec = publishing.system(output), publishing.stream(output)
    publishing.publish_twice(system, spec)
    found = publishing.written(system, spec)
    assert system.delivery(spec).exactly_once == output.claims_exactly_once
    assert len(found) == output.rows
    assert sorted(set(found)) == list(range(EPOCH * EPOCHS))


def test_changes_are_upserted_into_a_database_by_key(publishing: Publishing) -> None:
    output = OUTPUTS["a table of a database, upserted"]
    system = publishing.system(output)
    columns = "n bigint not null, m bigint, _deleted boolean"
    spec = dataclasses.replace(publishing.stream(output), schema=columns, through="a-1-changes/r1/1.1")
    system.create([spec])
    options = {**system.table(spec).options, "dbtable": "numbers"}
    made = publishing.spark.createDataFrame([(0, 0), (9, 9)], "N bigint, M bigint")
    made.write.format("jdbc").options(**options).save()
    epochs: tuple[list[tuple[Any, ...]], ...] = (
        [(1, 10, False), (2, 20, False), (1, 11, False), (9, None, True)],
        [(2, None, True), (1, 12, None), (3, None, True), (3, 30, False), (4, 40, False), (4, None, True)],
    )
    for number, changes in enumerate(epochs):
        producer = system.producer(spec, f"attempt-{number}")
        for change in changes:
            row = dict(zip(("n", "m", "_deleted"), change, strict=True))
            producer.write(0, pa.RecordBatch.from_pylist([row], Schema.of(columns).to_arrow()))
        publication = Publication("app/run/stage", "1.1", number, {0: producer.finish()})
        for _ in range(2):
            system.publish(spec, publication)
            system.log.filesystem.delete(system._record(spec, publication))
    found = publishing.spark.read.format("jdbc").options(**options).load().collect()
    assert sorted(map(tuple, found)) == [(0, 0), (1, 12), (3, 30)]
    query = "SELECT TABLENAME FROM SYS.SYSTABLES WHERE TABLENAME LIKE 'SAMZA%'"
    tables = publishing.spark.read.format("jdbc").options(**{**options, "dbtable": f"({query}) t"}).load().collect()
    assert [row[0] for row in tables] == ["SAMZA_EPOCHS"], "no staging table is left"
