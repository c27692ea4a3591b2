"""The system of kind spark on a real session: tables, files and a database in and out, and an existing PySpark job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.engine.stage_run import run_stage
from airflow_samza.errors import SamzaError, SchemaError, StageFailed, StageLost, TopicError
from airflow_samza.launch.code_shipping import code_of, ship_code
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.planner.explain import explain
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.records import plain
from airflow_samza.runs.failpoints import VARIABLE
from airflow_samza.runs.records.epoch_records import newest_intent
from airflow_samza.runs.records.folders import RunFolder, read, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import LOST, StageHandle, can_finish, is_staged
from airflow_samza.spark.dataframe_inputs import SparkReading
from airflow_samza.spark.sessions.classic_session import ClassicSession
from airflow_samza.spark.spark_engine import SparkEngine
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemBinding, SystemStreamPartition
from tests.spark.conftest import APPS, VIEWS
from tests.support.files_with import files_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(900)]

LONG = [view for view in VIEWS if view["dwell_ms"] > 1000]
NAMES = {"nl": "the Netherlands", "de": "Germany", "fr": "France"}
PASSWORD = "s3cret-of-the-database"
COLUMNS = "member_id bigint, country string, dwell_ms int"


class Warehouse:
    """A session, a root, and the systems that applications name."""

    def __init__(self, session: ClassicSession, folder: Path) -> None:
        self.folder = folder
        self.root = str(folder / "root")
        self.session = session
        self.files = open_filesystem(self.root)
        database = f"jdbc:derby:{folder / 'db'};create=true"
        options = {"url": database, "format": "jdbc", "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
        self.bindings = {
            "warehouse": SystemBinding("spark", {"root": str(folder / "data")}),
            "db": SystemBinding("spark", {**options, "user": "app", "password": PASSWORD}, frozenset({"password"})),
            "lake": SystemBinding("files", {"root": str(folder / "lake")}),
        }
        self.runtime = SparkRuntime(self.root, self.bindings)

    @property
    def spark(self) -> SparkSession:
        return self.session._session

    def prepare(self, name: str, run_id: str = "r1", **more: Any) -> RunPlan:
        return self.runtime.prepare(RunRequest(f"samza_spark_apps.spark_system:{name}", run_id, **more))

    def stage(self, run: RunPlan, stage_id: str, attempt: int = 1, generation: int = 1) -> None:
        """Runs an attempt at a stage in this process, as a stage runner does."""
        request = StageRequest(stage_id, str(Generation(run.generation, generation)), attempt)
        folder = self.handle(run, stage_id, generation).folder
        write_once(self.files, folder.attempt(attempt, "request"), request)
        state = AttemptState(self.files, RunFolder(run.application, run.run_id), request)
        run_stage(SparkEngine(self.session), self.files, run_bindings(run.systems, self.bindings), state, {})

    def handle(self, run: RunPlan, stage_id: str, generation: int = 1) -> StageHandle:
        return StageHandle(run.application, run.run_id, stage_id, Generation(run.generation, generation))

    def run(self, name: str, run_id: str = "r1") -> RunPlan:
        run = self.prepare(name, run_id)
        for stage in run.plan.stages:
            self.stage(run, stage.stage_id)
        return run

    def table(self, name: str) -> list[dict[str, Any]]:
        self.spark.catalog.refreshTable(name)
        return sorted((row.asDict() for row in self.spark.table(name).collect()), key=repr)

    def recorded(self, run: RunPlan, stream_id: str) -> SparkReading:
        found = read(
            self.files,
            f"{RunFolder(run.application, run.run_id).path}/read-by-spark/{run.generation}/{stream_id}.json",
            SparkReading,
        )
        assert found is not None
        return found


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClassicSession]:
    sys.path.insert(0, str(APPS))
    import samza_spark_apps.spark_system as module

    folder = tmp_path_factory.mktemp("session")
    made = ClassicSession("spark system", "local[2]", {"spark.sql.warehouse.dir": str(folder / "warehouse")})
    shipped = ship_code(open_filesystem(str(folder)), RunFolder("shared", "code"), code_of(module))
    made.ship([str(folder / shipped.path)], ())
    yield made
    made.stop()
    sys.path.remove(str(APPS))


@pytest.fixture
def warehouse(session: ClassicSession, tmp_path: Path) -> Warehouse:
    made = Warehouse(session, tmp_path)
    for table in ("views", "per_country", "counted", "busy"):
        made.spark.sql(f"DROP TABLE IF EXISTS {table}")
    views = made.spark.createDataFrame(VIEWS, COLUMNS).repartition(3)
    views.write.parquet(str(tmp_path / "data" / "views"))
    views.write.saveAsTable("views")
    return made


def counted(rows: list[dict[str, Any]]) -> dict[str, int]:
    return dict(Counter(row["country"] for row in rows))


# -- in and out --------------------------------------------------------------------------------------------------------


def test_parquet_is_read_and_tables_and_files_are_written(warehouse: Warehouse) -> None:
    warehouse.run("table_to_table")
    expected = counted(LONG)
    assert {row["country"]: row["views"] for row in warehouse.table("per_country")} == expected
    written = warehouse.spark.read.csv(str(warehouse.folder / "data/out/long"), header=True, schema=COLUMNS)
    assert sorted(row.asDict()["member_id"] for row in written.collect()) == [view["member_id"] for view in LONG]


def test_a_stage_without_any_result_leaves_an_empty_table(warehouse: Warehouse) -> None:
    warehouse.run("nothing")
    none = warehouse.spark.read.parquet(str(warehouse.folder / "data/none"))
    assert (none.count(), none.columns) == (0, ["member_id", "country", "dwell_ms"])
    assert not (warehouse.folder / "data/no_more").exists()


def test_a_query_is_read_by_key_and_partitions_of_a_table_are_replaced(warehouse: Warehouse) -> None:
    warehouse.spark.sql("CREATE TABLE counted (views bigint, country string) USING parquet PARTITIONED BY (country)")
    warehouse.spark.sql("INSERT INTO counted VALUES (1, 'nl'), (7, 'gr')")
    for run_id in ("r1", "r2"):
        warehouse.run("keyed", run_id)
        assert {row["country"]: row["views"] for row in warehouse.table("counted")} == {**counted(VIEWS), "gr": 7}


def test_a_database_is_read_and_written_by_jdbc(warehouse: Warehouse) -> None:
    members = warehouse.spark.createDataFrame([(1, "ann"), (2, "bo")], "ID bigint, NAME string")
    options = {name: str(value) for name, value in warehouse.bindings["db"].options.items() if name != "format"}
    members.write.format("jdbc").options(**options).option("dbtable", "members").save()
    run = warehouse.run("database")
    found = warehouse.spark.read.format("jdbc").options(**options).option("dbtable", "shouted").load()
    assert sorted(tuple(row) for row in found.collect()) == [(1, "ANN"), (2, "BO")]
    assert files_with(Path(warehouse.root), PASSWORD) == [], "no plan, record or topic holds the password"
    assert PASSWORD not in str(plain(run))


def test_an_existing_job_comes_in_and_its_shuffles_are_named(warehouse: Warehouse) -> None:
    run = warehouse.run("existing_job")
    assert {row["country"]: row["views"] for row in warehouse.table("busy")} == {
        k.upper(): v for k, v in counted(VIEWS).items()
    }
    (shuffle,) = warehouse.recorded(run, "busy").shuffles
    assert "for its HashAggregate" in shuffle
    assert '.partition_by("country", id=…) and .aggregate(…)' in shuffle


@pytest.mark.nightly
def test_columns_that_nobody_declared_are_those_of_the_dataframe(warehouse: Warehouse) -> None:
    run = warehouse.run("columns_unsaid")
    assert warehouse.recorded(run, "busy").schema == "country string, views bigint not null"
    lines = [
        line for path in (warehouse.folder / "lake/busy").glob("*.json*") for line in path.read_text().splitlines()
    ]
    assert len(lines) == 4


@pytest.mark.nightly
def test_tables_of_bytes_are_read_and_written_by_serdes(warehouse: Warehouse) -> None:
    lines = [json.dumps({**view, "more": [1]}) for view in VIEWS]
    warehouse.spark.createDataFrame([(line,) for line in lines], "value string").write.text(
        str(warehouse.folder / "data/lines")
    )
    warehouse.run("table_of_bytes")
    written = warehouse.spark.read.parquet(str(warehouse.folder / "data/piped"))
    assert written.dtypes == [("value", "binary")]
    found = sorted(bytes(row.value).decode() for row in written.collect())
    assert found == sorted(f"{view['member_id']}|{view['country']}" for view in LONG)


# -- what is read stays ------------------------------------------------------------------------------------------------


def test_what_was_read_stays_for_retries_and_clears_and_a_new_plan_reads_anew(warehouse: Warehouse) -> None:
    run = warehouse.prepare("existing_job")
    (stage,) = run.plan.stages
    warehouse.stage(run, stage.stage_id)
    warehouse.spark.sql("INSERT INTO views VALUES (1, 'xx', 1), (2, 'xx', 1)")
    warehouse.stage(run, stage.stage_id, generation=2)
    assert "XX" not in {row["country"] for row in warehouse.table("busy")}
    again = warehouse.prepare("existing_job", generation=2)
    warehouse.stage(again, stage.stage_id)
    assert "XX" in {row["country"] for row in warehouse.table("busy")}


def test_rows_without_a_key_are_packed_in_the_same_way_every_time(warehouse: Warehouse) -> None:
    def partitions(run: RunPlan) -> list[set[int]]:
        bound = run.through(run.stream("views"), Generation(1, 1))
        topic = LogSystem("log", SystemBinding("log", {"root": warehouse.root}))
        assert bound.spec.through is not None
        rows = topic_rows_by_partition(topic, bound.spec.through)
        return [{row["member_id"] for row in part} for part in rows]

    packed = []
    for run_id in ("r1", "r2"):
        run = warehouse.prepare("table_to_table", run_id)
        warehouse.stage(run, run.plan.stages[0].stage_id)
        packed.append(partitions(run))
    assert packed[0] == packed[1]
    assert all(250 < len(part) < 420 for part in packed[0])


def topic_rows_by_partition(log: LogSystem, topic: str) -> list[list[dict[str, Any]]]:
    consumer = log.consumer(StreamSpec(topic))
    found = []
    for partition in range(consumer.topic.partitions):
        envelopes = consumer.read(SystemStreamPartition("log", topic, partition))
        found.append(
            [row for envelope in envelopes if isinstance(envelope, MessageRun) for row in envelope.batch.to_pylist()]
        )
    consumer.close()
    return found


# -- what is promised --------------------------------------------------------------------------------------------------


def test_the_plan_says_what_is_read_and_what_is_promised(warehouse: Warehouse) -> None:
    run = warehouse.prepare("table_to_table")
    text = " ".join(explain(run.plan, run.engine_texts, run.notes).split())
    assert "read once by Spark, before the stage: parquet" in text
    assert "exactly once: the stage's end replaces the whole table" in text
    assert "at least once: an append that dies between Spark's write and the record of it is made again" in text
    job = warehouse.prepare("existing_job")
    assert "the DataFrame of samza_spark_apps.spark_system.busy_countries" in " ".join(
        explain(job.plan, None, job.notes).split()
    )


def test_a_table_of_another_format_than_the_plan_promised_is_rejected_before_anything_runs(
    warehouse: Warehouse,
) -> None:
    warehouse.spark.sql(f"CREATE TABLE counted ({COLUMNS}) USING parquet")
    warehouse.bindings["db"] = SystemBinding("spark")
    run = warehouse.prepare("declared_delta")
    (stage,) = run.plan.stages
    assert "exactly once: Delta skips a transaction that it has" in run.notes[stage.stage_id]["copy"]
    said = "The output 'copy' has format='delta', and the table counted of the system 'db' is in the format parquet"
    with pytest.raises(TopicError, match=said):
        warehouse.stage(run, stage.stage_id)
    assert newest_intent(warehouse.files, warehouse.handle(run, stage.stage_id).folder) is None


@pytest.mark.nightly
def test_a_plan_names_the_shuffles_of_a_function_when_it_is_asked_to(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from airflow_samza.cli import main; main()"]
    asked = [
        *program,
        "plan",
        "samza_spark_apps.spark_system:counted_thirds",
        "--root",
        str(tmp_path / "root"),
        "--shuffles",
    ]
    paths = os.pathsep.join([str(APPS), str(APPS.parents[2])])
    done = subprocess.run(
        asked,
        env={**os.environ, "PYTHONPATH": paths},
        cwd=APPS,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '.partition_by("third", id=…) and .aggregate(…)' in " ".join(done.stdout.split())


def test_who_has_no_session_leaves_the_writing_to_a_runner(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = warehouse.prepare("existing_job")
    (stage,) = run.plan.stages
    monkeypatch.setattr("airflow_samza.spark.table_writer._write", _breaks)
    with pytest.raises(StageFailed, match="Spark cannot write the output 'busy-out' to busy"):
        warehouse.stage(run, stage.stage_id)
    folder = warehouse.handle(run, stage.stage_id).folder
    assert is_staged(warehouse.files, folder)
    assert not can_finish(warehouse.files, folder)
    from airflow_samza.prepare.bound_systems import bind_systems
    from airflow_samza.runs.finish import finish_stage

    systems = bind_systems(run_bindings(run.systems, warehouse.bindings), warehouse.root)
    with pytest.raises(StageLost, match=r"not yet written to busy .*which only a stage runner can do"):
        finish_stage(warehouse.files, systems, run, stage.stage_id, Generation(1, 1), folder)
    monkeypatch.undo()
    warehouse.stage(run, stage.stage_id, attempt=2)
    assert len(warehouse.table("busy")) == 4, "written once, by the retry"


def _breaks(*_: Any) -> None:
    raise ConnectionError("the catalog is away")


@pytest.mark.nightly
def test_a_remote_table_is_called_by_the_tasks(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAMZA_SPARK_TEST_LINES", str(tmp_path / "lines"))
    warehouse.spark.sparkContext.environment["SAMZA_SPARK_TEST_LINES"] = str(tmp_path / "lines")
    warehouse.run("remote_table")
    rows = warehouse.spark.read.parquet(str(tmp_path / "data/named")).collect()
    assert {(row["country"], row["name"]) for row in rows} == {(c, NAMES.get(c)) for c in ("nl", "de", "fr", "us")}
    lines = Counter((tmp_path / "lines").read_text().splitlines())
    assert lines == {"nl the Netherlands": 2, "de Germany": 2, "fr France": 2, "us None": 2}


# -- who dies ----------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_runner_that_dies_reads_once_replaces_once_and_appends_at_least_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(APPS))
    _write_views(tmp_path / "data/views/1.parquet", VIEWS)
    runtime = SparkRuntime(
        str(tmp_path / "root"),
        {"warehouse": SystemBinding("spark", {"root": str(tmp_path / "data")})},
        master="local[2]",
    )
    run = runtime.prepare(RunRequest("samza_spark_apps.spark_system:copies", "r1"))
    (stage,) = run.plan.stages
    for place in ("read-before-record", "read-after-record", "table-before-write", "table-after-write"):
        monkeypatch.setenv(VARIABLE, f"{place}@{tmp_path / place}")
        died = runtime.submit(run, stage.stage_id)
        assert runtime.wait(died).state == LOST
        assert (tmp_path / place).exists()
        with pytest.raises(StageLost) as lost:
            runtime.finish(died)
        assert "may come twice: the output 'appended' (an append that dies" in lost.value.hint
        if place == "read-after-record":
            _write_views(tmp_path / "data/views/2.parquet", VIEWS)
    monkeypatch.delenv(VARIABLE)
    result = runtime.run_stage(run, stage.stage_id)
    marked = runtime.close(run, wait_seconds=120)
    assert result.inputs[0].messages == len(VIEWS), "what came after it was read is another run's"
    assert _ids(tmp_path / "data/replaced") == [view["member_id"] for view in LONG]
    assert _ids(tmp_path / "data/appended") == sorted(2 * [view["member_id"] for view in LONG]), (
        "as the plan says: at least once"
    )
    assert [topic.split("/")[0] for topic in marked] == [
        f"spark-copies-1-{name}" for name in ("views", "appended", "replaced")
    ]


def _write_views(path: Path, views: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = [("member_id", pa.int64()), ("country", pa.string()), ("dwell_ms", pa.int32())]
    pq.write_table(pa.Table.from_pylist(views, pa.schema(kinds)), path)


def _ids(folder: Path) -> list[int]:
    import pyarrow.parquet as pq

    return sorted(pq.read_table(folder, columns=["member_id"]).column("member_id").to_pylist())


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("missing", StageFailed, "Spark cannot read the input 'nowhere' from .*nowhere"),
        ("other_columns", SchemaError, "What Spark reads as 'views' has no column 'member'"),
        (
            "failing_job",
            StageFailed,
            r"failing, the function of from_dataframe 'broken' \(.*spark_system.py:\d+\), failed with ValueError",
        ),
    ],
)
def test_says_what_cannot_be_read(warehouse: Warehouse, name: str, error: type[SamzaError], said: str) -> None:
    run = warehouse.prepare(name)
    with pytest.raises(error, match=said):
        warehouse.stage(run, run.plan.stages[0].stage_id)


def test_a_database_that_rejects_shows_no_password(warehouse: Warehouse) -> None:
    run = warehouse.prepare("database")
    with pytest.raises(StageFailed, match="Spark cannot read the input 'members' from jdbc members") as caught:
        warehouse.stage(run, run.plan.stages[0].stage_id)
    assert PASSWORD not in str(caught.value)
