"""Rows of table pushes.

What is rejected before Spark is asked, what the rows are rejected for, and what a lost race says.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from airflow_samza.engine.push import make_topic, push_stream
from airflow_samza.launch.table_push import push_bindings
from airflow_samza.runs.records.expectations import Checked, Declared
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.push_checks import check_columns
from airflow_samza.runs.tables.push_request import request_path
from airflow_samza.runs.tables.table_version import DELETED
from airflow_samza.runs.tables.versions import rollback
from airflow_samza.schema import Schema
from airflow_samza.spark.push_job import failures_of_source, read_source
from airflow_samza.systems.delta.system import DeltaSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from airflow_samza.systems.tables.inputs.change_columns import CARRIED, REMOVED
from airflow_samza.task.tables.push_changes import changed_rows
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.scene import APPLICATION, Scene, raised
from tests.support.delta_lake import HandMade, column
from tests.support.pushes import SCHEMA, TOPIC, Pushes

PLAN, PUSH, CHECKED, MADE = (
    "by `plan`",
    "by the push",
    "by the push, before anything is seen",
    "when a version is looked for",
)

TABLE = 'app.pushed_table("profiles", key="id", schema="id bigint, tier string", partitions=2)'


def pushes(scene: Scene) -> Pushes:
    return Pushes(scene.folder / "samza")


def rejected(scene: Scene, rows: dict[int, str | None], found: dict[str, Any] | None = None, **asked: Any) -> str:
    """A push of these rows on top of a thousand."""
    place = pushes(scene)
    place.push("monday", dict.fromkeys(range(1000), "gold"))
    asked = {"max_change_ratio": None, "min_rows": None, **asked}
    request = place.stage(place.request("tuesday", **asked), rows, **(found or {}))
    return raised(lambda: place.finish(request))


def columns(scene: Scene, source: str) -> str:
    return raised(lambda: check_columns(pushes(scene).request("tuesday"), Schema.of(source), SCHEMA, loose=False))


def asked(scene: Scene, table: str, source: object, *lines: str, **more: Any) -> str:
    scene.application(*(lines or (f"table = {TABLE}", "app.local_table('seen', key='id', schema='id bigint')")))
    return raised(lambda: scene.runtime().push(APPLICATION, table, source, "monday", **more))


@row("push", "A wrong key column in the source of a push", CHECKED)
def _(scene: Scene) -> str:
    return columns(scene, "member bigint, tier string")


@row("push", "A source whose columns have drifted from the table's", CHECKED)
def _(scene: Scene) -> str:
    return columns(scene, "id string, tier string, score double")


@row("push", "Null keys in a push", CHECKED)
def _(scene: Scene) -> str:
    return rejected(scene, {1: "x"}, {"null_keys": 3})


@row("push", "Duplicate keys in a push", CHECKED)
def _(scene: Scene) -> str:
    return rejected(scene, {1: "x"}, {"duplicates": 2, "examples": ["7", "9"]})


@row("push", "Nulls in a column that is never null", CHECKED)
def _(scene: Scene) -> str:
    return rejected(scene, {1: "x"}, {"nulls": {"tier": 4}})


@row("push", "A push that shrinks by 90 %", CHECKED)
def _(scene: Scene) -> str:
    return rejected(scene, dict.fromkeys(range(100), "gold"))


@row("push", "A push that changes more than it may", CHECKED)
def _(scene: Scene) -> str:
    return rejected(scene, dict.fromkeys(range(1400), "gold"), max_change_ratio=0.2)


@row("push", "A push with fewer rows than asked for", CHECKED)
def _(scene: Scene) -> str:
    return rejected(scene, dict.fromkeys(range(900), "gold"), min_rows=1000)


@row("push", "An empty push", CHECKED)
def _(scene: Scene) -> str:
    return rejected(scene, {})


@row("push", "A push whose rows do not meet an expectation of the table", CHECKED)
def _(scene: Scene) -> str:
    expected = Declared("tier <> ''", "condition", "fail", (), {}, "tier <> ''")
    found = Checked("tier <> ''", "condition", "fail", rows=900, failed=3, samples=('{"id":7,"tier":""}',))
    return rejected(scene, dict.fromkeys(range(900), "gold"), {"checked": (found,)}, expect=(expected,))


@row("push", "A table that expects what pushes do not check", PLAN)
def _(scene: Scene) -> str:
    return asked(scene, "profiles", "/in", *_expecting('[unique("tier")]'))


@row("push", "A table that expects something with dead letters", PLAN)
def _(scene: Scene) -> str:
    bad = 'dead_letter(app.output_stream("bad"))'
    return asked(scene, "profiles", "/in", *_expecting(f'[not_null("tier", on_error={bad})]'))


@row("push", "A table of a lake that has expect=", PLAN)
def _(scene: Scene) -> str:
    table = 'app.pushed_table("profiles", key="id", from_table="shop.profiles", system="lake", expect=["id > 0"])'
    return asked(scene, "profiles", "/in", table)


def _expecting(expect: str) -> tuple[str, ...]:
    imported = "from airflow_samza import dead_letter, not_null, unique"
    return ("app.local_table('seen', key='id', schema='id bigint')", imported, f"{TABLE[:-1]}, expect={expect})")


@row("push", "An incremental push of a table that was never pushed", PUSH)
def _(scene: Scene) -> str:
    place = pushes(scene)
    return raised(lambda: place.push("tuesday", {1: "x"}, mode="incremental"))


@row("push", "Two concurrent pushes to one table", PUSH)
def _(scene: Scene) -> str:
    place = pushes(scene)
    slow, fast = place.stage(place.request("slow"), {1: "slow"}), place.stage(place.request("fast"), {1: "fast"})
    place.finish(fast)
    return raised(lambda: place.finish(slow))


@row("push", "A rollback under the id of a push", "by the rollback")
def _(scene: Scene) -> str:
    place = pushes(scene)
    place.push("monday", {1: "gold"})
    place.push("tuesday", {1: "iron"})
    return raised(lambda: rollback(place.files, "log", TOPIC.name, "monday", "tuesday"))


@row("push", "A push killed half-way", PUSH)
def _(scene: Scene) -> str:
    place = pushes(scene)
    request = place.request("monday")
    write_once(place.files, request_path(request.handle), request)
    write_once(place.files, request.handle.folder.attempt(1, "request"), StageRequest("push", "1.1", 1))
    return raised(lambda: scene.runtime().finish_push(request.handle))


@row("push", "A table whose columns have changed since its first push", PUSH)
def _(scene: Scene) -> str:
    place = pushes(scene)
    request = place.request("tuesday")
    return raised(lambda: make_topic(place.system, request, push_stream(request, Schema.of("id bigint, tier int"))))


@row("push", "A table whose key has changed since its first push", PUSH)
def _(scene: Scene) -> str:
    pushes(scene).push("monday", {1: "gold"})
    return asked(scene, "profiles", "/in", TABLE.replace('key="id"', 'key="tier"'))


@row("push", "A push to a table that the application fills itself", PUSH)
def _(scene: Scene) -> str:
    return asked(scene, "seen", "/in")


@row("push", "A push to a table that does not exist", PUSH)
def _(scene: Scene) -> str:
    return asked(scene, "profile", "/in")


@row("push", "A pushed table of unknown partition count", PUSH)
def _(scene: Scene) -> str:
    return asked(scene, "profiles", "/in", 'table = app.pushed_table("profiles", key="id", schema="id bigint")')


@row("push", "A source function that other processes cannot import", PUSH)
def _(scene: Scene) -> str:
    return asked(scene, "profiles", lambda spark: spark.range(1))


@row("push", "A source function that returns no DataFrame", PUSH)
def _(scene: Scene) -> str:
    scene.write("dags/models.py", "def scores(spark):", "    return [1, 2]")
    scene.monkeypatch.syspath_prepend(str(scene.folder / "dags"))
    request = pushes(scene).request("monday", source={"callable": "models:scores"})
    no_spark: Any = None
    return raised(lambda: read_source(no_spark, request, {}))


@row("push", "A source that does not answer", PUSH)
def _(scene: Scene) -> str:
    request = pushes(scene).request("monday", source={"path": "hdfs://nn1/models"})

    def read() -> None:
        with failures_of_source(request):
            raise OSError(
                ": java.net.ConnectException: Call From worker-7 to nn1:8020 failed on connection exception: "
                "Connection refused"
            )

    return raised(read)


@row("push", "A source with an unknown key", PUSH)
def _(scene: Scene) -> str:
    return asked(scene, "profiles", {"path": "/in", "fromat": "csv"})


@row("push", "A source with a secret in it", PUSH)
def _(scene: Scene) -> str:
    return asked(scene, "profiles", {"jdbc": {"url": "jdbc:h2:mem:x", "dbtable": "profiles", "password": "hush"}})


def lake(scene: Scene, source: dict[str, Any], **more: Any) -> str:
    """Push from a table of Delta that has the version 0 and no other."""
    made = HandMade(scene.folder / "lake", [column("id", "long"), column("tier", "string")], name="ml.profiles")
    made.begin()
    scene.systems |= {"lake": f"delta:{scene.folder / 'lake'}", "files": f"files:{scene.folder / 'data'}"}
    return asked(scene, "profiles", source, **more)


@row("push", "A source in a table of a lake that is not there", PUSH)
def _(scene: Scene) -> str:
    return lake(scene, {"delta": "ml.profile", "system": "lake"})


@row("push", "A source at a version that the table does not have", PUSH)
def _(scene: Scene) -> str:
    return lake(scene, {"delta": "ml.profiles", "system": "lake", "version": "7"})


@row("push", "An incremental push from a table of a lake, from which the current version is not", PUSH)
def _(scene: Scene) -> str:
    pushes(scene).push("sunday", {1: "gold"})
    return lake(scene, {"delta": "ml.profiles", "system": "lake"}, mode="incremental")


@row("push", "An incremental push since a version of a table that has expired", PUSH)
def _(scene: Scene) -> str:
    source = {"delta": "ml.profiles", "system": "lake"}
    place, lakes = pushes(scene), {"lake": SystemBinding("delta", {"root": str(scene.folder / "lake")})}
    lake(scene, {"delta": "no.such", "system": "lake"})
    former = DeltaSystem("lake", lakes["lake"]).slice(StreamSpec("source", 1, options=(("table", "ml.profiles"),)))
    place.push("sunday", {1: "gold"}, source={**source, "version": "3"}, table_id=former["table_id"])
    return raised(lambda: scene.runtime().push(APPLICATION, "profiles", source, "monday", mode="incremental"))


@row("push", "Rows that are gone from a table of a lake, whose key other rows have", CHECKED)
def _(scene: Scene) -> str:
    columns = {"id": [7, 7], DELETED: [False, False], "change": [CARRIED, REMOVED]}
    return raised(lambda: list(changed_rows(iter([pa.RecordBatch.from_pydict(columns)]), ["id"], "profiles")))


@row("push", "A source in a table of a lake without a system", PUSH)
def _(scene: Scene) -> str:
    return lake(scene, {"delta": "ml.profiles"})


@row("push", "A source in a table of a lake in a system of another kind", PUSH)
def _(scene: Scene) -> str:
    return lake(scene, {"delta": "ml.profiles", "system": "files"})


@row("push", "A source in a table of a lake, with a connection of its own", PUSH)
def _(scene: Scene) -> str:
    request = pushes(scene).request("monday", source={"iceberg": "ml.profiles", "system": "lake"})
    scene.application(f"table = {TABLE}")
    request = replace(request, reference=APPLICATION)
    bindings = {"lake": SystemBinding("iceberg", {"root": "/lake"})}
    return raised(lambda: push_bindings(bindings, request, {"password": "hush"}))


@row("push", "A push that keeps the last row of a key, without a column to order by", PUSH)
def _(scene: Scene) -> str:
    return raised(lambda: pushes(scene).request("monday", on_duplicate="last"))


@row("push", "A version that has expired", MADE)
def _(scene: Scene) -> str:
    place = pushes(scene)
    for number in range(3):
        place.push(f"push-{number}", {1: "x"}, keep_versions=1)
    text = raised(lambda: versions.by_number(place.files, "log", TOPIC.name, 1))
    return text.replace(place.current().current_from[:19], "2026-01-05T00:00:00")


@row("push", "No version was current at the time asked for", MADE)
def _(scene: Scene) -> str:
    place = pushes(scene)
    place.push("monday", {1: "x"}, interval=("2026-01-05T00:00:00+00:00", "2026-01-06T00:00:00+00:00"))
    return raised(lambda: versions.as_of(place.files, "log", TOPIC.name, datetime(2026, 1, 5, tzinfo=timezone.utc)))


@row("push", "A rollback before the first version", MADE)
def _(scene: Scene) -> str:
    place = pushes(scene)
    place.push("monday", {1: "x"}, interval=("2026-01-05T00:00:00+00:00", "2026-01-06T00:00:00+00:00"))
    return raised(lambda: rollback(place.files, "log", TOPIC.name, "previous", "undo"))
