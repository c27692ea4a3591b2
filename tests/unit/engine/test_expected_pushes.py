"""Expectations of a table about its pushes: evaluated in the tasks, judged before a version becomes visible."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from airflow_samza.application.application import stream_application
from airflow_samza.application.bad_records import dead_letter
from airflow_samza.application.expectations import condition, foreign_key, fresh, not_null, rows, unique
from airflow_samza.engine.push_task import PushTask, empty_manifest
from airflow_samza.errors import InvalidApplication, PushError, SamzaError, UnknownName
from airflow_samza.launch.bindings import bindings_to_json
from airflow_samza.launch.table_push import _declared
from airflow_samza.runs.records.expectations import Declared, ExpectationResult
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.tables.push_finish import begin_staging
from airflow_samza.runs.tables.push_request import PushRequest
from airflow_samza.runs.tables.table_version import DELETED, TableVersion, describe_push
from airflow_samza.schema import Schema
from airflow_samza.systems.system import SystemBinding
from tests.support.pushes import PARTITIONS, SCHEMA, TOPIC, Pushes

SOUND = {1: "gold", 2: "iron", 3: "gold"}


def declared(*expect: object, schema: str = SCHEMA.ddl()) -> tuple[Declared, ...]:
    """The expectations of a table, as a push asks for them."""

    @stream_application("app")
    def application(app: Any) -> None:
        app.pushed_table("profiles", key="id", schema=schema, partitions=PARTITIONS, expect=list(expect))

    table = application.spec({}).tables["profiles"]
    return _declared(table, table.schema)


class Checked(Pushes):
    """Pushes whose rows pass the tasks of a push."""

    def run(self, request: PushRequest, batches: Sequence[Mapping[str, Any]]) -> PushRequest:
        epoch = begin_staging(self.files, request, SCHEMA)
        bindings = bindings_to_json({"log": SystemBinding("log", {"root": str(self.path)})})
        folder = request.handle.folder
        task = PushTask(
            str(self.path),
            bindings,
            "log",
            dataclasses.asdict(TOPIC),
            ("id",),
            (),
            folder.path,
            epoch,
            request.push_id,
            expect=request.expect,
        )
        shape = Schema.of(str(TOPIC.schema)).to_arrow()
        found = [pa.RecordBatch.from_pydict(dict(batch), schema=shape) for batch in batches]
        task.run(0, iter(found))
        for other in range(1, PARTITIONS):
            write_once(self.files, folder.manifest(epoch, other), empty_manifest())
        return request

    def checked(self, push_id: str, tiers: Mapping[int, str | None], **more: Any) -> TableVersion:
        """Push rows in batches of two, sorted by key."""
        found = sorted(tiers.items())
        batches = [
            {"id": [k for k, _ in part], "tier": [v for _, v in part], DELETED: [False] * len(part)}
            for part in (found[at : at + 2] for at in range(0, len(found), 2))
        ]
        return self.finish(self.run(self.request(push_id, **more), batches))


@pytest.fixture
def pushes(tmp_path: Path) -> Checked:
    return Checked(tmp_path)


def results(version: TableVersion) -> dict[str, tuple[str, int, int]]:
    return {each.expectation: (each.outcome, each.rows, each.failed) for each in version.expectations}


BAD: dict[int, str | None] = {**SOUND, 4: None, 5: "", -6: "gold"}


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (not_null("tier"), 'not_null(tier): 1 of 6 rows, such as {"id":4,"tier":null}'),
        ("id > 0", 'id > 0: 1 of 6 rows, such as {"id":-6,"tier":"gold"}'),
        ("1 / length(tier) > 0", "1 / length(tier) > 0: 1 of 6 rows"),
        (rows(at_least=7), "rows(at_least=7): 6 rows, and at least 7 are expected"),
        (rows(at_most=5), "rows(at_most=5): 6 rows, and at most 5 are expected"),
        (rows(change=0.5), "rows(change=0.5): 6 rows, 100% more than the 3 of version 1"),
        (fresh("id", "2 days"), "fresh(id, 2 days): the latest is"),
    ],
)
def test_a_push_that_does_not_meet_an_expectation_is_never_seen(pushes: Checked, expected: Any, said: str) -> None:
    pushes.checked("monday", SOUND)
    with pytest.raises(PushError) as raised:
        pushes.checked("tuesday", BAD, expect=declared(expected))
    assert f"does not meet the expectation {said}" in str(raised.value)
    assert not raised.value.retryable
    assert pushes.current().number == 1


@pytest.mark.parametrize(
    ("expected", "result"),
    [
        (not_null("tier", on_error="warn"), ("warned", 6, 1)),
        (condition("id > 0", on_error="warn"), ("warned", 6, 1)),
        (rows(at_least=7, on_error="warn"), ("warned", 6, 1)),
        (fresh("id", "2 days", on_error="warn"), ("warned", 6, 1)),
        (condition("id > -7", on_error="warn"), ("passed", 6, 0)),
    ],
)
def test_a_warning_is_on_the_record_of_the_version(
    pushes: Checked, expected: Any, result: tuple[str, int, int]
) -> None:
    version = pushes.checked("tuesday", BAD, expect=declared(expected))
    assert results(version)[expected.text] == result
    assert pushes.rows_of(version) == BAD
    assert pushes.current().expectations == version.expectations
    assert f"{expected.text}: {'met' if result[2] == 0 else 'not met (warning)'}" in describe_push(version, "tuesday")


def test_rows_that_are_dropped_are_counted_and_other_expectations_see_what_is_left(pushes: Checked) -> None:
    expect = declared(
        not_null("tier", on_error="drop"), condition("id > 0", on_error="drop"), "id <> 4", rows(at_most=4)
    )
    version = pushes.checked("tuesday", BAD, expect=expect)
    assert pushes.rows_of(version) == {**SOUND, 5: ""}
    assert {
        text: result for text, result in results(version).items() if text in {each.expectation for each in expect}
    } == {
        "not_null(tier)": ("dropped", 6, 1),
        "id > 0": ("dropped", 6, 1),
        "id <> 4": ("passed", 4, 0),
        "rows(at_most=4)": ("passed", 4, 0),
    }


def test_rows_are_dropped_before_keys_that_come_twice_are_looked_for(pushes: Checked) -> None:
    twice = [{"id": [1, 1, 2], "tier": ["gold", None, "iron"], DELETED: [False] * 3}]
    with pytest.raises(PushError, match="came before"):
        pushes.finish(pushes.run(pushes.request("monday"), twice))
    request = pushes.request("tuesday", expect=declared(not_null("tier", on_error="drop")))
    assert pushes.rows_of(pushes.finish(pushes.run(request, twice))) == {1: "gold", 2: "iron"}


def test_a_row_that_another_of_its_key_replaces_is_not_looked_at(pushes: Checked) -> None:
    twice = [{"id": [1], "tier": [None], DELETED: [False]}, {"id": [1], "tier": ["gold"], DELETED: [False]}]
    request = pushes.request("monday", on_duplicate="last", latest_by="at", expect=declared(not_null("tier")))
    version = pushes.finish(pushes.run(request, twice))
    assert results(version)["not_null(tier)"] == ("passed", 1, 0)
    assert results(version)["unique(id)"] == ("dropped", 2, 1)


def test_an_incremental_push_is_checked_in_the_rows_that_it_writes(pushes: Checked) -> None:
    pushes.checked("monday", SOUND)
    changes = [{"id": [1, 2, 4, 5], "tier": [None, None, "gold", None], DELETED: [True, False, False, True]}]
    request = pushes.request("tuesday", mode="incremental", expect=declared(not_null("tier", on_error="drop")))
    version = pushes.finish(pushes.run(request, changes))
    assert pushes.rows_of(version) == {2: "iron", 3: "gold", 4: "gold"}
    assert results(version)["not_null(tier)"] == ("dropped", 2, 1)
    expect = declared(rows(at_least=1000), rows(change=0.5), not_null("tier"))
    with pytest.raises(PushError, match=r"rows\(change=0.5\): 2 changes, 67% of the 3 rows of version 2"):
        pushes.finish(
            pushes.run(
                pushes.request("wednesday", mode="incremental", expect=expect),
                [{"id": [1, 4], "tier": [None, "iron"], DELETED: [True, False]}],
            )
        )


def test_an_incremental_push_without_rows_has_no_time_that_is_too_old(pushes: Checked) -> None:
    pushes.checked("monday", SOUND)
    request = pushes.request("tuesday", mode="incremental", expect=declared(fresh("id", "2 days")))
    assert results(pushes.finish(pushes.run(request, [])))["fresh(id, 2 days)"] == ("passed", 0, 0)
    with pytest.raises(PushError, match="no row has a time"):
        pushes.finish(pushes.run(pushes.request("wednesday", expect=declared(fresh("id", "2 days"))), []))


def test_times_are_compared_with_the_end_of_the_data_interval(pushes: Checked) -> None:
    interval = ("1970-01-01T00:00:00+00:00", "1970-01-02T00:00:00+00:00")
    version = pushes.checked("monday", SOUND, interval=interval, expect=declared(fresh("id", "2 days")))
    assert results(version)["fresh(id, 2 days)"] == ("passed", 3, 0)


def test_a_retry_with_another_expectation_takes_nothing_that_was_staged_for_the_first(pushes: Checked) -> None:
    request = pushes.request("monday", expect=declared(not_null("tier", on_error="warn")))
    assert request.digest != pushes.request("monday").digest
    assert request.digest != pushes.request("monday", expect=declared(not_null("tier"))).digest
    pushes.run(request, [{"id": [1], "tier": [None], DELETED: [False]}])
    with pytest.raises(PushError, match="is not staged"):
        pushes.finish(dataclasses.replace(request, expect=declared(not_null("tier"))))


def test_a_push_that_lost_the_race_is_checked_against_the_version_that_won(pushes: Checked) -> None:
    pushes.checked("monday", SOUND)
    batches = [{"id": [1, 2, 3, 4], "tier": ["gold"] * 4, DELETED: [False] * 4}]
    late = pushes.run(pushes.request("tuesday", expect=declared(rows(change=0.5))), batches)
    pushes.checked("rival", dict.fromkeys(range(100), "gold"))
    with pytest.raises(SamzaError) as lost:
        pushes.finish(late)
    assert lost.value.retryable
    with pytest.raises(PushError, match="4 rows, 96% fewer than the 100 of version 2"):
        pushes.finish(pushes.retried(late))


def test_the_checks_that_every_push_has_are_results_of_the_same_kind(pushes: Checked) -> None:
    pushes.checked("monday", SOUND)
    nulls = [{"id": [None, 1, 1, 2], "tier": ["a", "b", "c", "d"], DELETED: [False] * 4}]
    more: dict[str, Any] = {"on_null_key": "drop", "on_duplicate": "any", "min_rows": 2, "max_change_ratio": 0.5}
    version = pushes.finish(pushes.run(pushes.request("tuesday", **more), nulls))
    assert version.expectations == (
        ExpectationResult("not_null(id)", "not_null", "dropped", ("id",), 4, 1, "1 row whose key is null, of 4"),
        ExpectationResult("unique(id)", "unique", "dropped", ("id",), 3, 1, "1 row whose key comes twice, of 3"),
        ExpectationResult("min_rows=2", "rows", "passed", (), 2, 0),
        ExpectationResult("max_change_ratio=0.5", "rows", "passed", (), 2, 0),
    )


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.few(8)
def test_counts_are_those_of_duckdb(pushes: Checked, seed: int) -> None:
    dice = random.Random(seed)
    tiers = {
        key: dice.choice([None, "", "a", "bb", "ccc"]) for key in dice.sample(range(-50, 50), dice.randrange(1, 60))
    }
    conditions = ["id >= 0", "length(tier) < 3", "tier IS NOT NULL OR id % 2 = 0", "id BETWEEN -10 AND 10"]
    drops = [each for each in conditions if dice.random() < 0.4]
    expect = declared(*(condition(each, on_error="drop" if each in drops else "warn") for each in conditions))
    version = pushes.checked("monday", tiers, expect=expect)
    with duckdb.connect() as peer:
        peer.execute("CREATE TABLE t (id BIGINT, tier VARCHAR)")
        peer.executemany("INSERT INTO t VALUES (?, ?)", [list(one) for one in tiers.items()])
        kept = " AND ".join(f"(({each}) IS NOT FALSE)" for each in drops) or "true"

        def count(where: str) -> int:
            found = peer.execute(f"SELECT count(*) FROM t WHERE {where}").fetchone()
            assert found is not None
            return int(found[0])

        for each in conditions:
            seen = "true" if each in drops else kept
            said = "dropped" if each in drops else "warned"
            wrong = count(f"({seen}) AND ({each}) IS FALSE")
            assert results(version)[each] == (said if wrong else "passed", count(seen), wrong)
        assert pushes.rows_of(version) == dict(peer.execute(f"SELECT id, tier FROM t WHERE {kept}").fetchall())


@pytest.mark.parametrize(
    ("make", "said", "kind"),
    [
        (lambda app: [unique("tier")], "pushes do not check: they look at one row at a time", InvalidApplication),
        (lambda app: [not_null("tear")], "There is no column 'tear'", UnknownName),
        (lambda app: ["tear > 0"], "names the column 'tear', which is not there", UnknownName),
        (
            lambda app: [not_null("tier", on_error=dead_letter(app.output_stream("bad")))],
            "a push writes no other",
            None,
        ),
        (
            lambda app: [
                foreign_key("id", app.pushed_table("others", key="id", schema="id bigint", partitions=PARTITIONS))
            ],
            "which pushes do not check",
            None,
        ),
    ],
)
def test_what_a_push_cannot_check_is_rejected_where_the_table_is_declared(make: Any, said: str, kind: Any) -> None:
    @stream_application("app")
    def application(app: Any) -> None:
        app.pushed_table("profiles", key="id", schema=SCHEMA.ddl(), partitions=PARTITIONS, expect=make(app))

    def described() -> None:
        table = application.spec({}).tables["profiles"]
        _declared(table, table.schema)

    with pytest.raises(kind or InvalidApplication, match=said):
        described()
