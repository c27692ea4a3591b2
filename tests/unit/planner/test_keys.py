"""Rule P11: equal counts are not co-partitioning."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.application.windows import count, tumbling
from airflow_samza.errors import PartitioningMismatch, PlanError
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.system_kinds import BUILT_IN, SystemKind, SystemTraits
from tests.support.planner_applications import ROW, errors_of, files, keyed, left, plan_of


def join(one: Any, other: Any, **more: Any) -> None:
    one.join(other, left, **{"schema": ROW, "key": "k", "ttl": "1 hour", "id": "j", **more}).sink(print)


def partitioning_after(change: Any) -> ExecutionPlan | list[PlanError]:
    """Return the plan, or the rejections, of the join of a changed stream with a keyed one."""

    def describe(app: Any) -> None:
        join(change(keyed(app, "a")), keyed(app, "b"))

    try:
        return plan_of(describe)
    except PlanError as error:
        return [error]


def test_a_join_rejects_unkeyed_streams() -> None:
    (error,) = errors_of(lambda app: join(files(app, "a"), keyed(app, "b")))
    assert isinstance(error, PartitioningMismatch)
    assert error.facts["stream"] == "a"
    assert "a → join j" in error.sentence
    assert ".partition_by('k', id=…)" in error.hint


@pytest.mark.parametrize("unkeyed", [True, False])
def test_the_traits_of_a_declared_kind_say_whether_its_streams_are_unkeyed(
    unkeyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILT_IN, "lake", SystemKind("lakes:Lake", SystemTraits(unkeyed_splits=unkeyed)))

    def describe(app: Any) -> None:
        app.input_stream("a", schema=ROW, system=app.system("s", kind="lake"), partitions=2).sink(print)

    assert plan_of(describe).stream("a").partitioning.kind == ("unkeyed" if unkeyed else "unknown")


def test_a_join_rejects_differing_keys() -> None:
    (error,) = errors_of(lambda app: join(keyed(app, "a", key="c"), keyed(app, "b")))
    assert "partitioned by c string" in error.sentence


def test_a_join_rejects_differing_partitioners() -> None:
    (error,) = errors_of(lambda app: join(keyed(app, "a", partitioner="kafka"), keyed(app, "b")))
    assert "'kafka'" in error.sentence


def test_a_side_input_of_another_partitioner_is_never_to_be_repartitioned() -> None:
    def describe(app: Any) -> None:
        changes = app.side_input("changes", schema="k bigint, n int", key="k", partitioner="kafka", partitions=8)
        table = app.table("t", key="k", side_inputs=[changes])
        keyed(app, "a").join(table, how="left", id="j").send_to(app.output_stream("out"))

    (error,) = errors_of(describe)
    assert "is not re-partitioned: look it up by a stream that lies like it" in str(error.hint)


def test_a_join_by_more_columns_than_both_are_partitioned_by_is_sound() -> None:
    assert not plan_of(lambda app: join(keyed(app, "a"), keyed(app, "b"), key=["c", "k"])).warnings


def test_a_join_of_streams_partitioned_by_different_parts_of_its_key_is_rejected() -> None:
    (error,) = errors_of(lambda app: join(keyed(app, "a", key="k"), keyed(app, "b", key="c"), key=["k", "c"]))
    assert "different numbers" in error.sentence


def test_a_join_of_streams_partitioned_by_the_same_columns_in_another_order_is_rejected() -> None:
    (error,) = errors_of(
        lambda app: join(keyed(app, "a", key=["k", "c"]), keyed(app, "b", key=["c", "k"]), key=["k", "c"])
    )
    assert isinstance(error, PartitioningMismatch)


def test_join_keys_of_different_types_are_rejected_with_the_cast() -> None:
    (error,) = errors_of(lambda app: join(keyed(app, "a"), keyed(app, "b", schema="k string, at timestamp")))
    assert "CAST(k AS BIGINT) AS k" in error.hint


def test_integers_of_any_width_are_one_type() -> None:
    assert not plan_of(lambda app: join(keyed(app, "a"), keyed(app, "b", schema="k smallint, at timestamp"))).warnings


def test_a_join_warns_of_unknown_partitioning_and_assume_settles_it() -> None:
    def describe(app: Any, **more: Any) -> None:
        join(keyed(app, "a", key=None, bounded=False, max_delay="1 s"), keyed(app, "b"), **more)

    (warning,) = plan_of(describe).warnings
    assert "how 'a' is partitioned is not declared" in warning
    assert not plan_of(lambda app: describe(app, assume_partitioned_by="k")).warnings


@pytest.mark.parametrize("assumed", ["k", "x"], ids=["by the stream's column", "by the table's"])
def test_a_join_with_a_table_that_an_unknown_side_input_fills_assumes_it_too(assumed: str) -> None:
    def describe(app: Any, **more: Any) -> None:
        events = app.system("events", kind="log")
        filling = app.side_input("s", system=events, partitions=8, schema="x bigint, n int")
        table = app.table("t", key="x", side_inputs=[filling], schema="x bigint, n int")
        keyed(app, "a", key=None, bounded=False).join(table, left, schema=ROW, key="k", id="j", **more).sink(print)

    assert ["assume_partitioned_by='k'" in one for one in plan_of(describe).warnings] == [True, False]
    assert "assume_partitioned_by='x'" in plan_of(describe).warnings[1]
    assert plan_of(partial(describe, assume_partitioned_by=assumed)).warnings == ()


@pytest.mark.parametrize("assumed", ["k", "x"], ids=["by the left column", "by the right one"])
def test_the_columns_that_a_join_assumes_are_of_either_side(assumed: str) -> None:
    def describe(app: Any) -> None:
        one = keyed(app, "a", key=None, bounded=False)
        other = app.input_stream("b", schema="x bigint, seen timestamp", timestamp="seen", bounded=False, partitions=8)
        join(one, other, left_key="k", right_key="x", key=None, assume_partitioned_by=assumed)

    assert not [warning for warning in plan_of(describe).warnings if "partitioned" in warning]


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.where("v > 0").filter(bool),
        lambda s: s.map(lambda m: m),
        lambda s: s.flat_map(lambda m: [m]),
        lambda s: s.map_batches(lambda b: b),
        lambda s: s.map(lambda m: m, schema="k int, x string"),
        lambda s: s.select("*"),
        lambda s: s.select("v", "k"),
        lambda s: s.select("*", "v + 1 AS w"),
        lambda s: s.select("k AS kk").select("kk AS k"),
        lambda s: s.partition_by("c", id="away").partition_by("k", id="back"),
        lambda s: s.transform(lambda df: df, schema=ROW),
    ],
)
def test_a_key_column_is_followed_through_operators(change: Any) -> None:
    plan = partitioning_after(change)
    assert isinstance(plan, ExecutionPlan)
    assert plan.warnings == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.select("k + 1 AS k"),
        lambda s: s.select("v", "upper(c) k"),
        lambda s: s.transform(lambda df: df),
        lambda s: s.map(lambda m: m, schema="x bigint").map(lambda m: m, schema=ROW),
        lambda s: s.select("k AS kk", "v AS k"),
        lambda s: s.map(lambda m: m, schema="k string").map(lambda m: m, schema=ROW),
    ],
)
def test_a_key_column_that_is_lost_is_unknown_never_guessed(change: Any) -> None:
    found = partitioning_after(change)
    if isinstance(found, ExecutionPlan):
        assert "is not declared" in found.warnings[0]
    else:
        assert found[0].rule == "partitioning-mismatch"


def test_a_merge_of_streams_of_one_key_keeps_it_and_of_two_keys_does_not() -> None:
    assert not plan_of(lambda app: join(keyed(app, "a").merge(keyed(app, "c")), keyed(app, "b"))).warnings
    (error,) = errors_of(lambda app: join(keyed(app, "a").merge(keyed(app, "c", key="c")), keyed(app, "b")))
    assert error.facts["partitioning"] == "unkeyed"


@pytest.mark.parametrize("first", ["files", "keyed"])
def test_a_merge_with_a_stream_without_a_key_has_none(first: str) -> None:
    def describe(app: Any) -> None:
        streams = {"files": files(app, "a"), "keyed": keyed(app, "c")}
        one = streams.pop(first)
        join(one.merge(*streams.values()), keyed(app, "b"))

    (error,) = errors_of(describe)
    assert error.facts["partitioning"] == "unkeyed"


def test_a_merge_of_streams_of_one_key_has_its_type_where_one_of_them_knows_it() -> None:
    def describe(app: Any) -> None:
        undeclared = app.input_stream("c", key="k", partitions=8)
        join(undeclared.merge(keyed(app, "a")), keyed(app, "b", schema="k string, c string, v int, at timestamp"))

    (error,) = errors_of(describe)
    assert "partitioned by k bigint, with 'b', partitioned by k string" in error.sentence


def test_a_keyed_aggregation_is_rejected_unless_the_rows_of_a_key_lie_together() -> None:
    (error,) = errors_of(lambda app: files(app, "a").aggregate(["c", "k"], id="n", n=count()).sink(print))
    assert ".partition_by(['c', 'k'], id=…)" in error.hint
    (error,) = errors_of(lambda app: keyed(app, "a").window(tumbling("1 s"), key="c", id="n", n=count()).sink(print))
    assert "partitioned by k bigint" in error.sentence
    (error,) = errors_of(lambda app: keyed(app, "a").select("k + 1 AS k").aggregate("k", id="n", n=count()).sink(print))
    assert "is not declared" in error.sentence


@pytest.mark.parametrize("key", ["k", ["k", "c"]])
def test_a_keyed_aggregation_by_the_partition_key_and_more_is_sound(key: Any) -> None:
    plan_of(lambda app: keyed(app, "a").aggregate(key, id="n", n=count()).sink(print))


def test_one_partition_holds_all_rows_of_every_key() -> None:
    plan_of(lambda app: files(app, "a", 1).aggregate("c", id="n", n=count()).sink(print))


@pytest.mark.parametrize("other", [files, lambda app, name, count: keyed(app, name, count, key="c")])
def test_joins_of_one_partition_are_sound_whatever_the_keys(other: Any) -> None:
    def streams(app: Any) -> None:
        join(files(app, "a", 1), other(app, "b", 1))

    def table(app: Any) -> None:
        table = app.local_table("t", key="k", schema=ROW)
        other(app, "w", 1).send_to(table)
        files(app, "a", 1).join(table, left, schema=ROW, id="j").sink(print)

    def pushed(app: Any) -> None:
        other(app, "a", 1).join(
            app.pushed_table("t", key="k", schema=ROW, partitions=1), left, schema=ROW, id="j"
        ).sink(print)

    for describe in (streams, table, pushed):
        assert not plan_of(describe).warnings
    with pytest.raises(PlanError, match="partition"):
        plan_of(lambda app: join(files(app, "a", 1), other(app, "b", 2)))


def test_keys_of_different_types_are_rejected_in_one_partition_too() -> None:
    (error,) = errors_of(lambda app: join(files(app, "a", 1), files(app, "b", 1, schema="k string, at timestamp")))
    assert "CAST(k AS BIGINT) AS k" in error.hint


def test_a_rejection_speaks_of_several_streams_as_of_several() -> None:
    (error,) = errors_of(lambda app: join(files(app, "a").merge(files(app, "c")), keyed(app, "b")))
    assert "'a' and 'c' are not keyed (their rows come from files, or from streams with other keys)" in error.sentence


def test_a_remote_table_ties_no_streams_together() -> None:
    def describe(app: Any) -> None:
        remote = app.remote_table("t", key="k", schema=ROW, reader=lambda key: None, writer=lambda key, row: None)
        keyed(app, "a", 4).send_to(remote)
        looked_up = keyed(app, "b", 16).join(remote, left, schema=ROW, id="look-up")
        join(looked_up, keyed(app, "c", 16))

    plan = plan_of(describe)
    assert [(group.join, group.streams) for group in plan.join_groups] == [("app-1-join-j", ("b", "c"))]


def test_merged_streams_of_different_counts_hold_a_key_in_two_partitions() -> None:
    (error,) = errors_of(
        lambda app: keyed(app, "a", 4).merge(keyed(app, "b", 8)).aggregate("k", id="n", n=count()).sink(print)
    )
    assert "different partition counts" in error.sentence


def test_the_rows_of_an_aggregation_are_keyed_as_what_came_in() -> None:
    def describe(app: Any) -> None:
        counts = keyed(app, "a").aggregate("k", id="n", n=count())
        keyed(app, "b").join(counts, left, schema=ROW, key="k", ttl="1 hour", id="j").sink(print)

    assert not plan_of(describe).warnings


def test_a_local_table_must_be_written_by_its_key() -> None:
    def describe(app: Any) -> None:
        table = app.local_table("t", key="k", schema=ROW)
        files(app, "w").send_to(table)
        keyed(app, "a").join(table, left, schema=ROW, id="j").sink(print)

    (error,) = errors_of(describe)
    assert error.facts["stream"] == "w"
    assert "before sending it to the table" in error.hint


def test_a_table_that_every_task_holds_fits_unkeyed_streams() -> None:
    def describe(app: Any) -> None:
        table = app.local_table("t", key="k", schema=ROW)
        files(app, "w", 3).broadcast(id="all").send_to(table)
        files(app, "a", 5).join(table, left, schema=ROW, id="j").sink(print)

    assert not plan_of(describe).warnings


def test_a_pushed_table_takes_its_key_from_the_descriptor() -> None:
    def describe(app: Any) -> None:
        keyed(app, "a").join(
            app.pushed_table("t", key="c", schema=ROW, partitions=8), left, schema=ROW, key="c", id="j"
        ).sink(print)

    (error,) = errors_of(describe)
    assert "partitioned by k bigint" in error.sentence
    assert error.facts["key"] == ("c",)


def test_a_side_input_of_files_is_not_keyed() -> None:
    def describe(app: Any) -> None:
        side = app.side_input("s", schema=ROW, path="s", partitions=8)
        keyed(app, "a").join(app.table("t", key="k", schema=ROW, side_inputs=[side]), left, schema=ROW, id="j").sink(
            print
        )

    (error,) = errors_of(describe)
    assert "'s' (side input of table t) is not keyed" in error.sentence


def filled_from(kind: str, role: str, partitions: int, *, is_bound: bool, **more: Any) -> ExecutionPlan:
    """Return the plan of a lookup in a table that a stream of a kind of system fills, as one by its key."""

    def describe(app: Any) -> None:
        lake = app.system("lake", kind=None if is_bound else kind)
        side = getattr(app, role)("s", schema=ROW, system=lake, partitions=partitions, **more)
        table = app.table("t", key="k", schema=ROW, side_inputs=[side])
        keyed(app, "a", partitions).join(table, left, schema=ROW, id="j").sink(print)

    spec = stream_application("filled")(describe).spec()
    return ExecutionPlanner({}, {"a": partitions, "s": partitions}, {"s": kind} if is_bound else {}).plan(spec)


@pytest.mark.parametrize("is_bound", [False, True], ids=["declared", "bound"])
@pytest.mark.parametrize("role", ["side_input", "input_stream"])
@pytest.mark.parametrize("kind", BUILT_IN)
def test_a_declared_key_counts_for_what_fills_a_table_only_where_others_partition_by_keys(
    kind: str, role: str, is_bound: bool
) -> None:
    filled = partial(filled_from, kind, role, is_bound=is_bound)
    if BUILT_IN[kind].traits.unkeyed_splits:
        declared = r"'s' \(side input of table t\) is not keyed \('s' declares it by key=, and files lie as they came\)"
        with pytest.raises(PartitioningMismatch, match=declared) as rejected:
            filled(8, key="k")
        assert "have every task read all of it (broadcast=True in place of key=" in str(rejected.value)
        with pytest.raises(PartitioningMismatch, match=r"is not keyed \(its rows come from files"):
            filled(8)
    else:
        assert filled(8, key="k", partitioner="samza").stream("s").partitioning.kind == "keyed"
    assert filled(1, key="k").stream("s").partitions == 1


def test_a_table_that_nothing_fills_is_warned_of() -> None:
    def describe(app: Any) -> None:
        keyed(app, "a").join(app.local_table("t", key="k", schema=ROW), left, schema=ROW, id="j").sink(print)

    assert "Nothing fills the table 't'" in plan_of(describe).warnings[0]


def test_the_plan_carries_the_partitioning_of_every_stream() -> None:
    def describe(app: Any) -> None:
        files(app, "a").partition_by(["v", "c"], id="p").broadcast(id="all").sink(print)

    plan = plan_of(describe)
    kinds = {stream.stream_id: stream.partitioning.kind for stream in plan.streams}
    assert kinds == {"a": "unkeyed", "p": "keyed", "all": "broadcast"}
    assert plan.stream("p").partitioning.types == ("bigint", "string")


@pytest.mark.parametrize("bound", [{}, {"a": "kafka"}])
def test_a_topic_of_kafka_is_partitioned_by_kafkas_rule_unless_it_declares_another(bound: dict[str, str]) -> None:
    def describe(app: Any, **more: str) -> None:
        events = app.system("events", kind=None if bound else "kafka")
        join(app.input_stream("a", schema=ROW, key="k", system=events, partitions=8, **more), keyed(app, "b"))

    def planned(**more: str) -> ExecutionPlan:
        spec = stream_application("joining")(lambda app: describe(app, **more)).spec()
        return ExecutionPlanner({}, {"a": 8}, bound).plan(spec)

    with pytest.raises(PartitioningMismatch, match="with 'kafka'"):
        planned()
    assert planned(partitioner="samza").stream("a").partitioning.partitioner == "samza"


def test_p11_a_stream_is_looked_up_by_columns_of_other_names_than_the_table_s() -> None:
    def describe(app: Any, key: str) -> None:
        table = app.pushed_table("t", key="x", schema="x bigint, n int", partitions=8)
        keyed(app, "a", key=key).join(table, left, schema=ROW, key="k", id="j").sink(print)

    assert plan_of(partial(describe, key="k")).warnings == ()
    (error,) = errors_of(partial(describe, key="c"))
    assert ".partition_by('k', id=…)" in error.hint


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("key", [None, "k"])
def test_files_do_not_lie_by_a_key_because_a_join_assumes_it(side: str, key: str | None) -> None:
    def describe(app: Any) -> None:
        sides = [files(app, "a", key=key), keyed(app, "b")]
        join(*(sides if side == "left" else reversed(sides)), assume_partitioned_by="k")

    if key is not None:  # as without the assumption: each message is checked where it is read
        assert [check.columns for check in plan_of(describe).key_checks] == [("k",)]
        return
    (error,) = errors_of(describe)
    assert "'a' is not keyed (its rows come from files" in error.sentence
    assert error.hint.endswith("Files lie by their sizes, so assume_partitioned_by= says nothing of them.")


def test_files_of_one_partition_may_be_joined() -> None:
    plan_of(
        lambda app: join(
            files(app, "a", partitions=1), files(app, "b", partitions=1), key="k", assume_partitioned_by="k"
        )
    )


@pytest.mark.parametrize("more", [{"bounded": False, "max_delay": "1 s"}, {"slice": "checkpoint"}])
def test_files_that_keep_coming_do_not_lie_by_a_key_because_an_operator_assumes_it(more: dict[str, Any]) -> None:
    def describe(app: Any, **said: Any) -> None:
        windowed = files(app, "a", **more, **said).window(tumbling("1 hour"), key="k", n=count(), id="w", **assumed)
        windowed.sink(print)

    assumed = {"assume_partitioned_by": "k"}
    (error,) = errors_of(describe)
    assert (
        "the files of 'a' that come from one run or epoch to the next are read in whichever partition" in error.sentence
    )
    plan_of(lambda app: describe(app, partitions=1))
