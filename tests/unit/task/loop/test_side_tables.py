"""Tables that side inputs feed, in the test driver.

Rows, deletions, processors, updates between epochs (rules S1–S3, S6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import InitableTask, StreamTask, stream_application, task_application
from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.errors import (
    ConfigError,
    InvalidApplication,
    MessageError,
    ProcessorMissing,
    PushError,
    SamzaError,
    SchemaError,
    StoreError,
    UnknownName,
)
from airflow_samza.schema import Schema
from airflow_samza.systems.system import MessageRun, SystemStreamPartition
from airflow_samza.task.loop.side_tables import SideTable, _check_keys
from airflow_samza.task.loop.task_tables import Filled
from airflow_samza.task.tables.lazy_store import LazyTableStore
from airflow_samza.testing import TestDriver

VIEWS, PROFILES, SCORES = (
    "member_id bigint, page string",
    "member_id bigint, tier string",
    "member_id bigint, score bigint",
)

Describe = Callable[[Any], Any]


def joined(table: Describe, config: dict[str, str] | None = None, **driver: Any) -> TestDriver:
    """Views, each beside the row of its member in a table that ``table`` declares."""

    @stream_application("joined", config=config)
    def application(app: Any) -> None:
        views = app.input_stream("views", schema=VIEWS, key="member_id", bounded=False)
        views.join(table(app), how="left", id="join").send_to(app.output_stream("out"))

    return TestDriver(application, **driver)


def profiles(app: Any, **more: Any) -> Any:
    """A table whose messages are its rows."""
    return app.table(
        "profiles", key="member_id", side_inputs=[app.side_input("changes", schema=PROFILES, key="member_id")], **more
    )


def view(*members: int | None) -> list[dict[str, Any]]:
    return [{"member_id": member, "page": "p"} for member in members]


def change(**tiers: str | None) -> list[dict[str, Any]]:
    return [{"member_id": int(member[1:]), "tier": tier} for member, tier in tiers.items()]


def seen(driver: TestDriver, column: str = "tier") -> list[tuple[Any, Any]]:
    return [(row.member_id, row[column]) for row in driver.output("out")]


# -- each message a row ------------------------------------------------------------------------------------------------


def test_the_last_message_of_a_key_is_its_row() -> None:
    driver = (
        joined(profiles)
        .pipe("changes", change(m1="gold", m2="gold"))
        .pipe("changes", change(m1="silver"))
        .pipe("views", view(1, 2, 3))
    )
    assert seen(driver.run()) == [(1, "silver"), (2, "gold"), (3, None)]


class Kept:
    """A processor that makes each message a row."""

    def __init__(self, config: Any, metrics: Any) -> None:
        pass

    def process(self, message: Any, store: Any) -> Iterator[tuple[Any, Any]]:
        yield message.key, {"tier": message.message.tier}


@pytest.mark.parametrize("processor", [None, Kept])
def test_what_is_dropped_leaves_the_row_of_its_key_as_it_was(processor: type | None) -> None:
    def table(app: Any) -> Any:
        schema = "member_id bigint, tier string not null"
        changes = app.side_input("changes", schema=schema, key="member_id", on_error="drop")
        return app.table("profiles", key="member_id", side_inputs=[changes], schema=schema, processor=processor)

    sent = [*change(m1="gold"), "no message", *change(m1=None, m2="silver")]
    assert seen(joined(table).pipe("changes", sent).pipe("views", view(1, 2)).run()) == [(1, "gold"), (2, "silver")]


def test_rows_with_a_null_key_are_ignored_and_counted() -> None:
    driver = (
        joined(profiles)
        .pipe("changes", [{"member_id": None, "tier": "x"}, *change(m1="gold")])
        .pipe("views", view(1))
        .run()
    )
    (report,) = driver.reports()
    assert (report.tables["profiles"].ignored, report.tables["profiles"].rows) == (1, 1)


def test_a_row_that_says_so_deletes_its_key() -> None:
    def table(app: Any) -> Any:
        changes = app.side_input("changes", key="member_id")
        return app.table("profiles", key="member_id", side_inputs=[changes], schema=PROFILES)

    columns = {
        "member_id": [1, 2, 1, 3, None],
        "tier": ["gold", "gold", None, "gold", None],
        "_deleted": [False, None, True, False, True],
    }
    driver = joined(table).pipe("changes", pa.table(columns)).pipe("views", view(1, 2, 3)).run()
    assert seen(driver) == [(1, None), (2, "gold"), (3, "gold")]
    assert driver.reports()[0].tables["profiles"].rows == 2


def test_a_table_is_complete_before_the_first_message_and_follows_between_epochs() -> None:
    driver = joined(profiles).pipe("changes", change(m1="gold")).pipe("views", view(1, 2))
    driver.step()
    driver.pipe("changes", change(m2="silver")).pipe("views", view(1, 2)).step()
    assert seen(driver) == [(1, "gold"), (2, None), (1, "gold"), (2, "silver")]


def test_only_what_is_new_of_a_side_input_is_read_in_an_epoch() -> None:
    driver = joined(profiles).pipe("changes", change(m1="a", m2="b", m3="c")).pipe("views", view(1)).step()
    driver.pipe("changes", change(m1="d")).pipe("views", view(1)).step()
    (report,) = driver.reports()
    assert report.side_inputs["changes"].messages <= 1  # the last epoch of the step found nothing to do
    assert seen(driver) == [(1, "a"), (1, "d")]


def test_several_topics_feed_one_table_and_one_topic_two() -> None:
    @stream_application("both")
    def application(app: Any) -> None:
        old, new = (app.side_input(name, schema=PROFILES, key="member_id") for name in ("old", "new"))
        views = app.input_stream("views", schema=VIEWS, key="member_id")
        first = app.table("first", key="member_id", side_inputs=[old])
        both = app.table("both", key="member_id", side_inputs=[old, new], schema=PROFILES)
        views.join(first, how="left", id="one").send_to(app.output_stream("out"))
        views.join(both, how="left", id="two").send_to(app.output_stream("more"))

    driver = (
        TestDriver(application)
        .pipe("old", change(m1="old"))
        .pipe("new", change(m2="new"))
        .pipe("views", view(1, 2))
        .run()
    )
    assert seen(driver) == [(1, "old"), (2, None)]
    assert [(row.member_id, row.tier) for row in driver.output("more")] == [(1, "old"), (2, "new")]
    assert driver.reports()[0].side_inputs["old"].messages == 1  # read once, for both


@pytest.mark.parametrize(
    ("said", "config", "last"),
    [
        ({}, {}, "b"),
        ({"a": {"priority": 1}, "b": {"priority": 2}}, {}, "a"),
        ({}, {"task.chooser.priorities.log.b": "1"}, "a"),
        ({}, {"systems.log.streams.b.samza.priority": "1"}, "a"),
        ({}, {"streams.b.samza.priority": "1"}, "a"),
        ({"a": {"priority": 1}}, {"task.chooser.priorities.log.a": "0"}, "b"),
        ({"a": {"priority": 5}, "b": {"bootstrap": True}}, {}, "a"),
        ({"a": {"priority": 5}}, {"streams.b.samza.bootstrap": "true"}, "a"),
    ],
)
def test_side_inputs_of_a_higher_priority_are_read_first(
    said: dict[str, Any], config: dict[str, str], last: str
) -> None:
    def table(app: Any) -> Any:
        feeds = [
            app.side_input(name, system="log", schema=PROFILES, key="member_id", **said.get(name, {}))
            for name in ("a", "b")
        ]
        return app.table("profiles", key="member_id", side_inputs=feeds, schema=PROFILES)

    driver = joined(table, config).pipe("a", change(m1="a")).pipe("b", change(m1="b")).pipe("views", view(1))
    assert seen(driver.run()) == [(1, last)]


@pytest.mark.parametrize(
    "said",
    [
        {"slice": "checkpoint"},
        {"slice": "timestamp", "timestamp": "at"},
        {"changes": True},
        {"max_delay": "1 minute", "timestamp": "at"},
        {"watermarks": object()},
    ],
    ids=["checkpoint", "timestamp", "changes", "max_delay", "watermarks"],
)
def test_rejects_what_says_nothing_of_a_side_input(said: dict[str, Any]) -> None:
    def table(app: Any) -> Any:
        return app.table(
            "t", key="member_id", side_inputs=[app.side_input("a", schema="member_id bigint, at timestamp", **said)]
        )

    with pytest.raises(InvalidApplication, match=f"Side input 'a' has {next(iter(said))}=, which is for inputs"):
        joined(table)


def test_every_task_holds_its_own_partition_and_all_of_a_broadcast() -> None:
    def table(app: Any) -> Any:
        return app.table(
            "profiles", key="member_id", side_inputs=[app.side_input("changes", schema=PROFILES, broadcast=True)]
        )

    wanted = {n: f"t{n}" for n in range(20)}
    rows = change(**{f"m{n}": tier for n, tier in wanted.items()})
    for form in (profiles, table):
        driver = joined(form, partitions=4).pipe("changes", rows).pipe("views", view(*wanted)).run()
        assert dict(seen(driver)) == wanted
        held = [report.tables["profiles"].rows for report in driver.reports()]
        assert sum(held) == (20 if form is profiles else 80)


# -- a processor -------------------------------------------------------------------------------------------------------


class Summing:
    """Adds the scores of a member up; a score below 0 deletes the member."""

    def __init__(self, config: Any, metrics: Any) -> None:
        self.least = int(config.get("least.score", "0"))
        self.metrics = metrics

    def process(self, message: Any, store: Any) -> Iterator[tuple[Any, Any]]:
        score = message.message.score
        self.metrics.count("scores")
        if score is None:
            return
        if score < 0:
            yield message.key, None
        elif score >= self.least:
            former = store.get(message.key)
            yield message.key, {"score": score + (former.score if former is not None else 0)}


def summed(app: Any, processor: Any = Summing) -> Any:
    changes = app.side_input("scores", schema=SCORES, key="member_id")
    return app.table("sums", key="member_id", side_inputs=[changes], schema=SCORES, processor=processor)


def score(*pairs: tuple[int | None, int | None]) -> list[dict[str, Any]]:
    return [{"member_id": member, "score": points} for member, points in pairs]


def test_a_processor_sees_the_store_as_the_messages_before_left_it() -> None:
    driver = (
        joined(summed)
        .pipe("scores", score((1, 2), (2, 5), (1, 3), (2, -1), (3, None)))
        .pipe("views", view(1, 2, 3))
        .run()
    )
    assert seen(driver, "score") == [(1, 5), (2, None), (3, None)]
    assert driver.reports()[0].metrics["scores"] == 5


def test_a_processor_goes_on_from_what_earlier_epochs_left() -> None:
    driver = joined(summed).pipe("scores", score((1, 2))).pipe("views", view(1)).step()
    driver.pipe("scores", score((1, 3))).pipe("views", view(1)).step()
    assert seen(driver, "score") == [(1, 2), (1, 5)]


def test_a_processor_reads_the_configuration() -> None:
    driver = joined(summed, {"least.score": "3"}).pipe("scores", score((1, 2), (1, 3))).pipe("views", view(1)).run()
    assert seen(driver, "score") == [(1, 3)]


def test_a_processor_is_named_in_the_configuration_as_well() -> None:
    config = {"stores.sums.side.inputs": "scores", "stores.sums.side.inputs.processor.factory": f"{__name__}:Summing"}

    def table(app: Any) -> Any:
        app.side_input("scores", schema=SCORES, key="member_id")
        return app.table("sums", key="member_id", schema=SCORES)

    driver = joined(table, config).pipe("scores", score((1, 2), (1, 2))).pipe("views", view(1)).run()
    assert seen(driver, "score") == [(1, 4)]


class Renamed:
    """Makes rows of messages that have other columns, and no key among them."""

    def __init__(self, config: Any, metrics: Any) -> None:
        pass

    def process(self, message: Any, store: Any) -> Iterator[tuple[Any, Any]]:
        assert message.key is None
        yield message.message.who, {"score": message.message.points * 10}


def test_the_messages_of_a_configured_factory_may_have_other_columns_than_its_rows() -> None:
    config = {"stores.sums.side.inputs": "scores", "stores.sums.side.inputs.processor.factory": f"{__name__}:Renamed"}
    driver = joined(lambda app: app.table("sums", key="member_id", schema=SCORES), config)
    driver.pipe("scores", pa.table({"who": [1, 2], "points": [3, 4]})).pipe("views", view(1, 2)).run()
    assert seen(driver, "score") == [(1, 30), (2, 40)]


def test_rejects_a_key_that_the_messages_of_a_processor_do_not_have() -> None:
    class Task(InitableTask, StreamTask):
        def init(self, context: Any) -> None: ...

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None: ...

    @task_application("reads")
    def application(app: Any) -> None:
        app.input_stream("views", schema=VIEWS, key="member_id")
        scores = app.side_input("scores", key="nobody")
        app.table("sums", key="member_id", side_inputs=[scores], schema=SCORES, processor=Summing)
        app.task(Task)

    driver = TestDriver(application).pipe("scores", pa.table({"who": [1]})).pipe("views", view(1))
    with pytest.raises(UnknownName, match="The side input 'scores' has no column 'nobody', which is its key"):
        driver.run()


def test_a_low_level_task_reads_a_local_table_that_the_configuration_feeds() -> None:
    found: list[Any] = []

    class Task(InitableTask, StreamTask):
        def init(self, context: Any) -> None:
            self.table = context.get_table("sums")

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            row = self.table.get(envelope.key)
            found.append((envelope.key, row and row.score))

    config = {"stores.sums.side.inputs": "scores", "stores.sums.side.inputs.processor.factory": f"{__name__}:Summing"}

    @task_application("reads", config=config)
    def application(app: Any) -> None:
        app.input_stream("views", schema=VIEWS, key="member_id")
        app.local_table("sums", key="member_id", schema=SCORES)
        app.task(Task)

    scores = pa.table({"member_id": [1, 1, 2], "score": [3, 4, 5]})
    TestDriver(application).pipe("scores", scores).pipe("views", view(1, 2, 3)).run()
    assert found == [(1, 7), (2, 5), (3, None)]


def test_a_joins_callable_gets_the_rows_of_a_processor() -> None:
    @stream_application("called")
    def application(app: Any) -> None:
        views = app.input_stream("views", schema=VIEWS, key="member_id")

        def enrich(view: Any, row: Any) -> Any:
            return {"member_id": view.member_id, "score": row.score if row is not None else -1}

        views.join(summed(app), enrich, how="left", id="join", schema=SCORES).send_to(app.output_stream("out"))

    driver = TestDriver(application).pipe("scores", score((1, 2))).pipe("views", view(1, 9)).run()
    assert seen(driver, "score") == [(1, 2), (9, -1)]


def test_null_keys_of_entries_are_ignored_and_counted() -> None:
    driver = joined(summed).pipe("scores", score((None, 7), (1, 1))).pipe("views", view(1)).run()
    assert driver.reports()[0].tables["sums"].ignored == 1


def broken(config: Any, metrics: Any) -> Any:
    class Broken:
        def process(self, message: Any, store: Any) -> Any:
            raise ValueError(f"no score {message.message.score}")

    return Broken()


def choosy(config: Any, metrics: Any) -> Any:
    class Choosy:
        def process(self, message: Any, store: Any) -> Any:
            raise SchemaError(f"The score {message.message.score} is none.", hint="Scores are below 6.")

    return Choosy()


def test_an_error_of_this_package_that_a_processor_raises_is_told_as_it_is() -> None:
    driver = joined(lambda app: summed(app, choosy)).pipe("scores", score((1, 7))).pipe("views", view(1))
    with pytest.raises(SchemaError) as failed:
        driver.run()
    assert (failed.value.sentence, failed.value.hint) == ("The score 7 is none.", "Scores are below 6.")


def test_a_processor_that_raises_names_store_stream_partition_and_offset() -> None:
    driver = joined(lambda app: summed(app, broken)).pipe("scores", score((1, 7))).pipe("views", view(1))
    with pytest.raises(
        MessageError, match="processor of the table 'sums', failed with ValueError: no score 7"
    ) as failed:
        driver.run()
    facts = failed.value.facts
    assert (facts["store"], facts["stream"], facts["partition"], facts["offset"]) == ("sums", "scores", 0, 0)
    assert str(facts["file"]).endswith("test_side_tables.py")


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([(1, {"score": "many"})], "does not fit: score is 'many'"),
        ([(1, {"member_id": 2, "score": 1})], "the row under the key 1 has the key 2"),
        ([("one", {"score": 1})], "does not fit|none of"),
        (None, "it returned None and not"),
        ([1], "unpack"),
    ],
)
def test_rejects_entries_that_are_none(entries: Any, words: str) -> None:
    class Giving:
        def __init__(self, config: Any, metrics: Any) -> None: ...

        def process(self, message: Any, store: Any) -> Any:
            return entries

    driver = joined(lambda app: summed(app, Giving)).pipe("scores", score((1, 7))).pipe("views", view(1))
    with pytest.raises(MessageError, match=words):
        driver.run()


# -- what is rejected ---------------------------------------------------------------------------------------------------


def undeclared(columns: str, **more: Any) -> Describe:
    """A table whose side input has other columns."""
    return lambda app: app.table(
        "t", key="member_id", schema=PROFILES, side_inputs=[app.side_input("s", schema=columns, broadcast=True)], **more
    )


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        (
            undeclared("member_id bigint, points int"),
            ProcessorMissing,
            "are no rows of the table 't': they have no column 'tier'",
        ),
        (
            undeclared(PROFILES, processor="no.such.module:factory"),
            ConfigError,
            "'no.such.module:factory', which cannot be imported",
        ),
        (
            lambda app: app.table("t", key="member_id", side_inputs=["views"], processor=Summing),
            SchemaError,
            "the columns of its rows are not",
        ),
    ],
)
def test_rejects_tables_that_cannot_be_filled(table: Describe, error: type[SamzaError], words: str) -> None:
    with pytest.raises(error, match=words):
        joined(table).pipe("views", view(1)).run()


def test_rejects_a_side_input_that_turns_out_to_lack_the_key() -> None:
    def table(app: Any) -> Any:
        return app.table("profiles", key="member_id", side_inputs=[app.side_input("changes")], schema=PROFILES)

    driver = joined(table).pipe("changes", [{"id": 1, "tier": "gold"}]).pipe("views", view(1))
    with pytest.raises(
        UnknownName, match="'changes' has no column 'member_id', which is the key of the table 'profiles'"
    ):
        driver.run()


def test_rejects_a_factory_that_makes_no_processor() -> None:
    driver = (
        joined(lambda app: summed(app, lambda config, metrics: 5)).pipe("scores", score((1, 1))).pipe("views", view(1))
    )
    with pytest.raises(InvalidApplication, match="made 5, which has no method process"):
        driver.run()


# -- low-level tasks ---------------------------------------------------------------------------------------------------


class Score(StreamTask, InitableTask):
    """Sends each view with the profile of its member; views without one are left out."""

    def init(self, context: Any) -> None:
        self.profiles = context.get_table("profiles")

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        found = self.profiles.get(envelope.key)
        assert self.profiles.get_all([envelope.key]) == ({envelope.key: found} if found is not None else {})
        if envelope.message.page == "write":
            self.profiles.put(envelope.key, {"member_id": envelope.key, "tier": "mine"})
        if found is not None:
            collector.send("out", {"member_id": envelope.key, "tier": found.tier})


@task_application("low-level")
def low_level(app: Any) -> None:
    app.input_stream("views", schema=VIEWS, key="member_id", bounded=False)
    profiles(app)
    app.output_stream("out", schema=PROFILES)
    app.task(Score)


def test_a_task_gets_rows_of_a_table_by_key() -> None:
    driver = (
        TestDriver(low_level, partitions=4)
        .pipe("changes", change(m1="gold", m2="silver"))
        .pipe("views", view(1, 2, 3))
        .run()
    )
    assert sorted(seen(driver)) == [(1, "gold"), (2, "silver")]


def test_a_task_sees_updates_from_epoch_to_epoch() -> None:
    driver = TestDriver(low_level).pipe("changes", change(m1="gold")).pipe("views", view(1)).step()
    driver.pipe("changes", change(m1="silver")).pipe("views", view(1)).step()
    assert seen(driver) == [(1, "gold"), (1, "silver")]


def test_a_task_may_not_write_a_table_of_side_inputs() -> None:
    driver = TestDriver(low_level).pipe("views", [{"member_id": 1, "page": "write"}])
    with pytest.raises(
        StoreError, match="writes to the table 'profiles', which is filled by side inputs and read-only"
    ):
        driver.run()


def test_messages_without_any_column_are_counted_among_those_without_a_key() -> None:
    spec = stream_application("joined")(profiles).spec({})
    schema = Schema.of(PROFILES)
    table = SideTable(
        spec, spec.tables["profiles"], LazyTableStore("profiles", schema, ("member_id",)), {"changes": schema}
    )
    filled = Filled()
    for offset, columns in ((0, ["member_id", "tier"]), (3, [])):
        rows = pa.RecordBatch.from_pylist([*change(m1="gold", m2="iron"), {"member_id": None, "tier": "x"}])
        place = SystemStreamPartition("memory", "changes", 0)
        table.take(("changes", 0), MessageRun(place, offset, rows.select(columns)))
        table.finish(filled)
    assert (filled.ignored, table.store.count) == ({"profiles": 1 + 3}, 2)


@pytest.mark.parametrize(
    ("key", "ordered"),
    [
        (["name"], True),
        (["name", "number"], True),
        (["share"], False),
        (["name", "share"], False),
        (["share", "number"], False),
    ],
)
def test_rows_of_a_push_can_be_searched_where_every_column_of_the_key_has_one_order(
    key: list[str], ordered: bool
) -> None:
    columns = "name string, number bigint, share double"

    def describe(app: Any) -> None:
        rates = app.pushed_table("rates", key=key, schema=columns, partitions=1)
        views = app.input_stream("views", schema=columns, key=key)
        views.join(rates, lambda view, rate: view, schema=columns, id="join").send_to(app.output_stream("out"))

    spec = stream_application("joined")(describe).spec({})
    table = SideTable(spec, spec.tables["rates"], LazyTableStore("rates", Schema.of(columns), tuple(key)), {})
    assert table.is_as_pushed is ordered


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ([1, 2, 3], None),
        ([1, 2, 1], "has 1 row whose key (k) came before, such as 1."),
        ([5, 5, 5, 2], "has 2 rows whose key (k) came before, such as 5."),
        ([1, 1, 2, 2, 3, 3, 4, 4], "has 4 rows whose key (k) came before, such as 1, 2, 3."),
    ],
)
def test_rejects_keys_of_a_lakes_table_that_come_twice(keys: list[int], said: str | None) -> None:
    table = TableDescriptor("profiles", TableKind.PUSHED, ("k",), options=(("from_table", "db.profiles"),))
    taken = [pa.RecordBatch.from_pydict({"k": [key]}) for key in keys]
    if said is None:
        _check_keys(table, taken, len(keys), 0)
        return
    with pytest.raises(PushError) as raised:
        _check_keys(table, taken, len(set(keys)), 0)
    assert raised.value.sentence == f"The table db.profiles, which fills the table 'profiles', {said}"
