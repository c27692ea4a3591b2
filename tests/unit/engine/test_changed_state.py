"""State of changed operators.

A plan goes on from what the same code made, and rejects the rest by name, with the ways out. No Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.errors import PlanChanged, PlanErrors, SamzaError
from airflow_samza.records import decode, encode
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_upkeep import reset
from airflow_samza.runs.state_history.versions import Version, find_version
from tests.support.changing_modules import ChangingModules
from tests.support.runs_here import Here

HEAD = """
from airflow_samza import StreamTask, avg, count, hopping, max_, session, stream_application, sum_, task_application, tumbling

@{kind}("changing"{options})
def app(app):
    rows = app.input_stream("rows", system="log", schema="member bigint, n bigint, at timestamp", timestamp="at", slice="checkpoint",
        max_delay=0{key})
"""

AGGREGATE = 'rows.aggregate("member", {functions}, id="{id}"{more}).send_to(app.output_stream("out", system="log"))'
WINDOW = (
    'rows.window({window}, key="member", {functions}, id="{id}"{more}).send_to(app.output_stream("out", system="log"))'
)
SECOND = 1_000_000

Write = Callable[..., str]


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path / "root")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    modules = ChangingModules(tmp_path, monkeypatch)

    def write(*lines: str, options: str = "", kind: str = "stream_application", key: str = "", before: str = "") -> str:
        body = "".join(f"    {line}\n" for line in lines)
        modules.write("changed_app", before + HEAD.format(options=options, kind=kind, key=key) + body)
        return "changed_app:app"

    return write


def append(here: Here, *numbers: int, second: int = 1) -> None:
    rows = pa.table(
        {
            "member": pa.array([1] * len(numbers), pa.int64()),
            "n": pa.array(numbers, pa.int64()),
            "at": pa.array([second * SECOND] * len(numbers), pa.timestamp("us", "UTC")),
        }
    )
    here.log.append("rows", rows, key=["member"], partitions=1)


def aggregate(functions: str = 'total=sum_("n")', name: str = "per-member", more: str = "") -> str:
    return AGGREGATE.format(functions=functions, id=name, more=more)


def window(
    window: str = 'tumbling("1 hour")', functions: str = 'total=sum_("n")', name: str = "hourly", more: str = ""
) -> str:
    return WINDOW.format(window=window, functions=functions, id=name, more=more)


def rejected(here: Here, application: str, run_id: str = "run-2") -> SamzaError:
    with pytest.raises(PlanChanged) as caught:
        here.plan(application, run_id)
    return caught.value


CHANGED_AGGREGATES = [
    ("another function", aggregate('total=max_("n")'), "functions total=sum(n bigint), now total=max(n bigint)"),
    ("a further function", aggregate('total=sum_("n"), rows=count()'), "now total=sum(n bigint), rows=count()"),
    ("another column", aggregate('total=sum_("member")'), "now total=sum(member bigint)"),
    ("another name", aggregate('sum=sum_("n")'), "now sum=sum(n bigint)"),
]


@pytest.mark.parametrize(
    ("line", "said"), [case[1:] for case in CHANGED_AGGREGATES], ids=[case[0] for case in CHANGED_AGGREGATES]
)
def test_rejects_an_aggregation_that_computes_something_else_than_its_state(
    here: Here, written: Write, line: str, said: str
) -> None:
    append(here, 3, 4)
    here.whole(written(aggregate()), "run-1")
    append(here, 4)
    error = rejected(here, written(line))
    assert error.sentence.startswith(
        "The state of aggregate 'per-member' in version 1 was made by another definition than the application's: "
    )
    assert said in error.sentence
    assert "Change it back; or give it a new id and set dropped=['per-member']" in (error.hint or "")
    assert "airflow-samza state reset changing" in (error.hint or "")


CHANGED_WINDOWS = [
    ("another length", window('tumbling("2 hours")'), "windows tumbling 1 hour, event time, UTC, now tumbling 2 hours"),
    ("another kind", window('session("1 hour")'), "now session 1 hour"),
    ("hops", window('hopping("1 hour", "30 minutes")'), "now hopping 1 hour / 30 minutes"),
    ("another zone", window('tumbling("1 hour", zone="Europe/Amsterdam")'), "event time, Europe/Amsterdam"),
    ("another time", window('tumbling("1 hour", time="processing")'), "now tumbling 1 hour, processing time, UTC"),
    ("early results", window('tumbling("1 hour", early_every=2)'), "early results none, now one after the other"),
    ("another function", window(functions='total=avg("n")'), "functions total=sum(n bigint), now total=avg(n bigint)"),
]


@pytest.mark.parametrize(
    ("line", "said"), [case[1:] for case in CHANGED_WINDOWS], ids=[case[0] for case in CHANGED_WINDOWS]
)
def test_rejects_a_window_that_is_another_one_than_its_state(here: Here, written: Write, line: str, said: str) -> None:
    append(here, 3, 4)
    here.whole(written(window()), "run-1")
    assert said in rejected(here, written(line)).sentence


def test_rejects_state_whose_key_has_another_type(here: Here, written: Write) -> None:
    append(here, 3)
    here.whole(written(aggregate()), "run-1")
    error = rejected(here, written('rows = rows.select("CAST(member AS int) AS member", "n", "at")', aggregate()))
    assert "key member bigint, now member int" in error.sentence


def test_rejects_windows_that_nobody_takes_over(here: Here, written: Write) -> None:
    append(here, 3, 4)
    here.whole(written(window()), "run-1")
    error = rejected(here, written(window(name="per-hour")))
    assert (
        error.sentence
        == "Version 1 holds the state of window 'hourly', which the application 'changing' does not have any more."
    )
    assert "renamed_from='hourly'" in (error.hint or "")
    assert "dropped=['hourly']" in (error.hint or "")


def test_a_renamed_window_keeps_its_open_windows(here: Here, written: Write) -> None:
    append(here, 3, 4)
    here.whole(written(window()), "run-1")
    append(here, 5)
    append(here, 0, second=7200)
    here.whole(written(window(name="per-hour", more=', renamed_from="hourly"')), "run-2")
    assert [row["total"] for row in here.rows("out")] == [12]


def test_a_renamed_window_of_another_length_is_rejected(here: Here, written: Write) -> None:
    append(here, 3)
    here.whole(written(window()), "run-1")
    renamed = written(window('tumbling("2 hours")', name="per-hour", more=', renamed_from="hourly"'))
    assert "window 'per-hour'" in rejected(here, renamed).sentence


def test_renamed_from_may_stay_in_the_code(here: Here, written: Write) -> None:
    append(here, 3, 4)
    here.whole(written(window()), "run-1")
    renamed = written(window(name="per-hour", more=', renamed_from="hourly"'))
    append(here, 5)
    here.whole(renamed, "run-2")
    append(here, 6)
    here.whole(renamed, "run-3")
    append(here, 0, second=7200)
    here.whole(renamed, "run-4")
    assert [row["total"] for row in here.rows("out")] == [18]


def test_a_renamed_partition_by_and_what_follows_go_on_in_every_run(here: Here, written: Write) -> None:
    counted = (
        'rows.partition_by("member", id="{part}"{p}).window(tumbling("1 hour"), key="member", total=sum_("n"), '
        'id="{id}"{w})'
        '.send_to(app.output_stream("out", system="log"))'
    )
    append(here, 3)
    here.whole(written(counted.format(part="by", p="", id="sums", w="")), "run-1")
    renamed = written(counted.format(part="by-member", p=', renamed_from="by"', id="totals", w=', renamed_from="sums"'))
    for run, number in enumerate((4, 5, 6), 2):
        append(here, number)
        here.whole(renamed, f"run-{run}")
    append(here, 0, second=7200)
    here.whole(renamed, "run-5")
    assert [row["total"] for row in here.rows("out")] == [18]


@pytest.mark.parametrize("more", [', renamed_from="hourly"', ""])
def test_no_two_operators_go_on_from_one_state(here: Here, written: Write, more: str) -> None:
    append(here, 3)
    here.whole(written(window()), "run-1")
    other = window(name="hourly" if not more else "again", more=more).replace(
        'output_stream("out"', 'output_stream("out2"'
    )
    sentence = rejected(here, written(window(name="per-hour", more=', renamed_from="hourly"'), other)).sentence
    assert "would continue from the state of window 'hourly' in version 1." in sentence


def test_state_that_is_said_to_be_dropped_goes(here: Here, written: Write) -> None:
    append(here, 3, 4)
    here.whole(written(window()), "run-1")
    append(here, 5)
    append(here, 0, second=7200)
    here.whole(written(window(name="per-hour"), options=', dropped=["hourly"]'), "run-2")
    assert [row["total"] for row in here.rows("out")] == [5]
    append(here, 0, second=14400)
    here.whole(written(window(name="per-hour")), "run-3")  # it is gone for good, and the word with it


def test_state_that_is_there_is_not_dropped(here: Here, written: Write) -> None:
    append(here, 3)
    sentence = rejected(here, written(window(), options=', dropped=["hourly"]')).sentence
    assert sentence == (
        "The application 'changing' says dropped=['hourly'], and still has window 'hourly', which continues from its "
        "state."
    )


def test_state_without_rows_is_dropped_without_a_word(here: Here, written: Write) -> None:
    append(here)
    here.whole(written(window()), "run-1")
    append(here, 1)
    assert here.plan(written(window(name="per-hour")), "run-2").state is not None


def test_all_that_changed_is_reported_at_once(here: Here, written: Write) -> None:
    append(here, 3)
    here.whole(written(window(), aggregate().replace('"out"', '"all"')), "run-1")
    with pytest.raises(PlanErrors) as caught:
        here.plan(written(window('tumbling("1 day")'), aggregate(name="each").replace('"out"', '"all"')), "run-2")
    assert [error.facts["operator"] for error in caught.value.errors] == ["hourly", "per-member"]


def test_after_a_reset_changed_operators_start_anew(here: Here, written: Write) -> None:
    append(here, 3)
    here.whole(written(aggregate()), "run-1")
    reset(here.log.filesystem, StateHistory("changing"), 0)
    assert here.plan(written(aggregate('total=max_("n")')), "run-2").state is not None


def test_what_is_no_part_of_the_state_may_change(here: Here, written: Write) -> None:
    append(here, 3, 4)
    here.whole(written(window('tumbling("1 hour", early_every=5)')), "run-1")
    append(here, 5)
    append(here, 0, second=7200)
    here.whole(written('rows = rows.where("n >= 0")', window('tumbling("1 hour", early_every=9)')), "run-2")
    assert [row["total"] for row in here.rows("out")] == [12]


JOIN = (
    'left = rows.select("member", "n").partition_by("member", id="left")',
    'right = app.input_stream("others", system="log", schema="member bigint, m bigint, extra int", slice="checkpoint")',
    'right = right.partition_by("member", id="right")',
)


def joined(how: str, columns: str, ttl: str = "1000 days") -> str:
    schema = ", ".join(f"{name} bigint" for name in columns.split())
    values = ", ".join(f"'{name}': {'one' if name == 'n' else 'other'}.{name}" for name in columns.split())
    return (
        f'left.join(right, lambda one, other: {{{values}}}, id="both", key="member", ttl="{ttl}", how="{how}", '
        f'schema="{schema}")'
        '.send_to(app.output_stream("out", system="log"))'
    )


def others(here: Here, *numbers: int) -> None:
    values = {"member": [1] * len(numbers), "m": list(numbers), "extra": [0] * len(numbers)}
    schema = pa.schema([("member", pa.int64()), ("m", pa.int64()), ("extra", pa.int32())])
    here.log.append("others", pa.table(values, schema=schema), key=["member"], partitions=1)


def test_rejects_a_join_of_another_kind(here: Here, written: Write) -> None:
    append(here, 3)
    others(here)
    here.whole(written(*JOIN, joined("inner", "n m")), "run-1")
    assert "how inner, now left" in rejected(here, written(*JOIN, joined("left", "n m"))).sentence


def test_a_join_may_keep_its_messages_longer(here: Here, written: Write) -> None:
    append(here, 3)
    others(here)
    here.whole(written(*JOIN, joined("inner", "n m")), "run-1")
    others(here, 9)
    here.whole(written(*JOIN, joined("inner", "n m", ttl="2000 days")), "run-2")
    assert here.rows("out") == [{"n": 3, "m": 9}]


def test_rejects_a_join_whose_messages_have_a_further_column(here: Here, written: Write) -> None:
    append(here, 3)
    others(here)
    here.whole(written(*JOIN, joined("inner", "n m")), "run-1")
    more = JOIN[1].replace("extra int", "extra int, late bigint")
    error = rejected(here, written(JOIN[0], more, JOIN[2], joined("inner", "n m")))
    assert "no column 'late' of its right stream" in error.sentence


def test_a_join_goes_on_when_a_column_is_left_out(here: Here, written: Write) -> None:
    append(here, 3)
    others(here, 8)
    here.whole(written(*JOIN, joined("inner", "n m")), "run-1")
    append(here, 4)
    fewer = ('right = right.select("member", "m")',)
    here.whole(written(*JOIN[:2], *fewer, JOIN[2], joined("inner", "n m")), "run-2")
    assert here.rows("out") == [{"n": 3, "m": 8}, {"n": 4, "m": 8}]


TASK = """
from airflow_samza import StreamTask

class Counting(StreamTask):
    def init(self, context):
        self.seen = context.get_store("{store}")
    def process(self, envelope, collector, coordinator):
        self.seen.put(envelope.key, {value})
"""


def counting(
    written: Write, store: str = "seen", value: str = "1", declared: str = 'value="bigint"', options: str = ""
) -> str:
    return written(
        f'app.store("{store}", key="bigint", {declared})',
        "app.task(Counting)",
        kind="task_application",
        key=', key="member"',
        before=TASK.format(store=store, value=value),
        options=options,
    )


def test_rejects_a_store_whose_values_have_another_type(here: Here, written: Write) -> None:
    append(here, 1)
    here.whole(counting(written), "run-1")
    error = rejected(here, counting(written, value='"one"', declared='value="string"'))
    assert error.sentence.startswith("The state of the store 'seen' in version 1 was made by another definition")
    assert "value bigint, now string" in error.sentence


def test_rejects_a_store_that_nobody_takes_over(here: Here, written: Write) -> None:
    append(here, 1)
    here.whole(counting(written), "run-1")
    assert "holds the state of the store 'seen'" in rejected(here, counting(written, store="known")).sentence
    here.whole(counting(written, store="known", options=', dropped=["seen"]'), "run-3")


TABLE = (
    'names = app.local_table("names", key="member", schema="{schema}"{more})',
    "rows.select({columns}).send_to(names)",
)


def table(schema: str = "member bigint, n bigint", columns: str = '"member", "n"', more: str = "") -> tuple[str, ...]:
    return tuple(line.format(schema=schema, columns=columns, more=more) for line in TABLE)


CHANGED_TABLES = [
    (
        "another type",
        table("member bigint, n int", '"member", "CAST(n AS int) AS n"'),
        "n bigint, now member bigint, n int",
    ),
    (
        "a further column",
        table("member bigint, n bigint, m bigint", '"member", "n", "n AS m"'),
        "now member bigint, n bigint, m bigint",
    ),
    ("a time to live", table(more=', ttl="1 day"'), "time to live none, now of each row"),
]


@pytest.mark.parametrize(
    ("lines", "said"), [case[1:] for case in CHANGED_TABLES], ids=[case[0] for case in CHANGED_TABLES]
)
def test_rejects_a_table_of_other_columns_than_its_rows(
    here: Here, written: Write, lines: tuple[str, ...], said: str
) -> None:
    append(here, 1)
    keyed = ', key="member"'
    here.whole(written(*table(), key=keyed), "run-1")
    error = rejected(here, written(*lines, key=keyed))
    assert error.sentence.startswith("The state of the table 'names'")
    assert said in error.sentence


def test_a_version_tells_what_its_state_means(here: Here, written: Write) -> None:
    append(here, 3)
    here.whole(written(aggregate()), "run-1")
    version = find_version(here.log.filesystem, StateHistory("changing"), 1)
    assert version is not None
    assert version.meanings["changing-1-aggregate-per-member"].facets == {
        "key": "member bigint",
        "functions": "total=sum(n bigint)",
    }


def test_a_version_of_before_meanings_were_kept_is_gone_on_from(here: Here, written: Write) -> None:
    append(here, 3)
    here.whole(written(aggregate()), "run-1")
    version = find_version(here.log.filesystem, StateHistory("changing"), 1)
    assert version is not None
    former = json.loads(encode(version))
    del former["meanings"]
    assert not decode(Version, json.dumps(former).encode(), "v").meanings
