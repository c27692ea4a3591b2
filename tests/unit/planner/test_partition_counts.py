"""Rules P1–P6: groups, counts, reasons and rejections."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import Any

import pytest

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.windows import count, tumbling
from airflow_samza.errors import (
    ConfigError,
    InvalidApplication,
    PartitionMismatch,
    Unreachable,
    UnresolvedPartitions,
)
from airflow_samza.planner.planner import ExecutionPlanner, HostAffinityInBatch
from tests.support.planner_applications import ROW, errors_of, files, keyed, left, plan_of, spec_of


def test_p1_the_walk_ends_when_virtual_edges_make_a_circle() -> None:
    def describe(app: Any) -> None:
        table = app.local_table("t", key="k", schema=ROW)
        joined = keyed(app, "a").join(table, left, schema=ROW, id="look-up")
        joined.send_to(table)

    plan = plan_of(describe)
    assert [group.streams for group in plan.join_groups] == [("a",)]


def test_p1_streams_reach_a_join_over_two_tables() -> None:
    def describe(app: Any) -> None:
        one, two = (app.local_table(name, key="k", schema=ROW) for name in ("one", "two"))
        keyed(app, "a").send_to(one)
        keyed(app, "b").join(one, left, schema=ROW, id="first").send_to(two)
        keyed(app, "c").join(two, left, schema=ROW, id="second").sink(print)

    groups = {group.join.rpartition("-")[2]: group.streams for group in plan_of(describe).join_groups}
    assert groups == {"first": ("a", "b"), "second": ("a", "b", "c")}


def test_p1_an_application_without_inputs_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="no input stream"):
        ExecutionPlanner().plan(ApplicationSpec("empty"))


def test_p2_a_remote_table_constrains_nothing() -> None:
    def describe(app: Any) -> None:
        table = app.remote_table("far", key="k", reader=lambda key: None, schema=ROW)
        files(app, "a", 3).merge(files(app, "b", 5)).join(table, left, schema=ROW, id="j").sink(print)

    assert plan_of(describe).join_groups == ()


def test_p2_a_broadcast_that_only_fills_the_table_is_left_out_of_the_group() -> None:
    def describe(app: Any) -> None:
        table = app.local_table("rules", key="k", schema=ROW)
        files(app, "r", 2).broadcast(id="everywhere").send_to(table)
        files(app, "a", 7).join(table, left, schema=ROW, id="j").sink(print)

    plan = plan_of(describe)
    assert [group.streams for group in plan.join_groups] == [("a",)]
    assert plan.stage("a-and-everywhere").task_count == 7


@pytest.mark.parametrize("names", list(permutations("wxyz")), ids="".join)
def test_p2_a_count_reaches_all_joins_of_a_chain_in_whatever_order_they_come(names: tuple[str, ...]) -> None:
    def describe(app: Any) -> None:
        links = [keyed(app, f"in-{name}", 3).partition_by("k", id=f"link-{name}") for name in names]
        links.append(keyed(app, "counted", 2))
        for name, link, behind in zip(names, links, links[1:], strict=False):
            table = app.local_table(f"table-{name}", key="k", schema=ROW)
            behind.send_to(table)
            link.join(table, left, schema=ROW, id=f"join-{name}").sink(print)

    plan = plan_of(describe)
    counts = {stream.partitions for stream in plan.streams if "link" in stream.stream_id}
    assert counts == {2}  # not 3, the greatest of the inputs


def test_p2_the_cap_can_be_lifted() -> None:
    def describe(app: Any) -> None:
        files(app, "a", 1000).partition_by("k", id="p").sink(print)

    assert plan_of(describe).stream("p").partitions == 256
    assert plan_of(describe, {"job.intermediate.stream.partitions.max": "500"}).stream("p").partitions == 500
    assert plan_of(describe, {"app.mode": "BATCH"}).stream("p").partitions == 256


@pytest.mark.parametrize("value", ["0", "-2", "many", "1.5"])
@pytest.mark.parametrize("key", ["job.intermediate.stream.partitions", "job.intermediate.stream.partitions.max"])
def test_p3_a_count_that_is_none_is_rejected_when_the_plan_has_an_intermediate_stream(key: str, value: str) -> None:
    def with_one(app: Any) -> None:
        keyed(app, "a").join(
            keyed(app, "b").partition_by("k", id="p"), left, schema=ROW, key="k", ttl="1 hour", id="j"
        ).sink(print)

    def without(app: Any) -> None:
        keyed(app, "a").sink(print)

    with pytest.raises(ConfigError) as rejected:
        plan_of(with_one, {key: value})
    assert rejected.value.facts["key"] == key
    plan_of(without, {key: value})


def test_p3_minus_one_means_unset() -> None:
    def describe(app: Any) -> None:
        files(app, "a", 6).partition_by("k", id="p").sink(print)

    assert plan_of(describe, {"job.intermediate.stream.partitions": "-1"}).stream("p").partitions == 6


def test_p4_a_broadcast_joined_with_a_stream_of_n_partitions_is_rejected_with_the_table_as_way_out() -> None:
    def describe(app: Any) -> None:
        rules = files(app, "r", 2).broadcast(id="everywhere")
        keyed(app, "a", 4).join(rules, left, schema=ROW, key="k", ttl="1 hour", id="j").sink(print)

    (error,) = errors_of(describe)
    assert isinstance(error, PartitionMismatch)
    assert "local_table" in error.hint


def test_p5_rejections_name_join_streams_counts_path_and_way_out() -> None:
    def describe(app: Any) -> None:
        right = keyed(app, "b", 16).where("v > 0")
        keyed(app, "a", 8).join(right, left, schema=ROW, key="k", ttl="1 hour", id="enrich").sink(print)

    (error,) = errors_of(describe)
    assert error.facts["join"] == "enrich"
    assert (error.facts["stream"], error.facts["partitions"]) == ("a", 8)
    assert (error.facts["other_stream"], error.facts["other_partitions"]) == ("b", 16)
    assert error.facts["path"] == ("a", "join enrich")
    assert error.facts["other_path"] == ("b", "where-0", "join enrich")
    assert "Re-partition 'b' by 'k'" in error.hint
    assert all(word in str(error) for word in ("enrich", "'a'", "'b'", "8 partitions", "16 partitions"))


def test_p5_the_way_out_names_the_key_of_the_side_to_repartition() -> None:
    def describe(app: Any, *, swapped: bool) -> None:
        one = keyed(app, "a", 8, schema="k bigint, at timestamp")
        other = keyed(app, "b", 16, key="id", schema="id bigint, at timestamp")
        keys = {"left_key": "id", "right_key": "k"} if swapped else {"left_key": "k", "right_key": "id"}
        left_side, right_side = (other, one) if swapped else (one, other)
        left_side.join(right_side, left, ttl="1 hour", id="enrich", **keys).sink(print)

    for swapped in (False, True):
        (error,) = errors_of(partial(describe, swapped=swapped))
        assert "Re-partition 'b' by 'id'" in error.hint


def test_p5_the_way_out_of_a_table_names_the_columns_that_the_stream_looks_up() -> None:
    def describe(app: Any) -> None:
        table = app.pushed_table("t", key=["x", "y"], schema="x bigint, y string, n int", partitions=16)
        stream = keyed(app, "a", 8, key=["k", "c"])
        stream.join(table, left, schema=ROW, key=["k", "c"], id="enrich").sink(print)

    (error,) = errors_of(describe)
    assert ".partition_by(['k', 'c'], id=…)" in error.hint


def test_p5_the_path_of_an_intermediate_stream_starts_at_its_input() -> None:
    def describe(app: Any) -> None:
        shared = files(app, "s").where("v > 1").partition_by("k", id="by-k")
        for name, count_ in (("a", 4), ("b", 8)):
            keyed(app, name, count_).join(shared, left, schema=ROW, key="k", ttl="1 hour", id=f"with-{name}").sink(
                print
            )

    (error,) = errors_of(describe)
    assert error.facts["join"] == "with-b"
    assert error.facts["other_path"] == ("s", "where-0", "by-k", "join with-b")
    assert "joined with a at with-a" in error.sentence
    assert "Re-partition 'b'" in error.hint


def test_p5_all_conflicts_are_reported_at_once() -> None:
    def describe(app: Any) -> None:
        for number in range(3):
            one, other = keyed(app, f"a{number}", 2), keyed(app, f"b{number}", 3)
            one.join(other, left, schema=ROW, key="k", ttl="1 hour", id=f"j{number}").sink(print)
        files(app, "f").aggregate("c", id="agg", n=count()).sink(print)

    errors = errors_of(describe)
    assert [error.rule for error in errors] == ["partition-mismatch"] * 3 + ["partitioning-mismatch"]
    assert all(error.hint for error in errors)


def test_p6_every_count_carries_its_reason() -> None:
    def describe(app: Any) -> None:
        pushed = app.pushed_table("t", key="k", schema=ROW, partitions=4)
        source = files(app, "in", 300)
        source.partition_by("k", id="by-k").join(pushed, left, schema=ROW, id="enrich").sink(print)
        source.partition_by("c", id="by-c").send_to(app.output_stream("out"))
        source.broadcast(id="all")

    plan = plan_of(describe)
    reasons = {stream.stream_id: (stream.partitions, stream.reason) for stream in plan.streams}
    assert reasons == {
        "all": (1, "broadcast: every task reads all of it"),
        "by-c": (256, "max of inputs and outputs, capped at 256"),
        "by-k": (4, "joined with t-push at enrich"),
        "in": (300, "declared"),
        "out": (256, "one per task of stage by-c"),
        "t-push": (4, "declared for table t"),
    }
    plan = plan_of(describe, {"job.intermediate.stream.partitions": "5"})
    assert (plan.stream("by-c").partitions, plan.stream("by-c").reason) == (5, "job.intermediate.stream.partitions")


def test_a_stream_without_a_count_is_named() -> None:
    def describe(app: Any) -> None:
        app.input_stream("a", schema=ROW).sink(print)
        app.input_stream("b", schema=ROW, key="k", partitions=2).join(
            app.pushed_table("t", key="k", schema=ROW), left, schema=ROW, id="j"
        ).sink(print)

    errors = errors_of(describe)
    assert [type(error) for error in errors] == [UnresolvedPartitions] * 2
    assert "'a'" in str(errors[0])
    assert "'t-push' of the table 't'" in str(errors[1])


def test_p11_rows_are_not_said_to_lie_apart_behind_an_input_whose_count_is_unknown() -> None:
    def describe(app: Any) -> None:
        source = app.input_stream("a", schema=ROW, timestamp="at")
        source.partition_by("k", id="p").window(tumbling("1 minute"), key="c", n=count(), id="w").sink(print)

    assert [type(error) for error in errors_of(describe)] == [UnresolvedPartitions]


@pytest.mark.parametrize("said", [0, -1])
def test_a_system_that_reports_no_partitions_is_rejected(said: int) -> None:
    with pytest.raises(UnresolvedPartitions):
        ExecutionPlanner({}, {"a": said}).plan(spec_of(lambda app: app.input_stream("a", schema=ROW).sink(print)))


def test_a_declared_count_that_the_system_contradicts_is_rejected() -> None:
    with pytest.raises(PartitionMismatch, match="declared with 8 partitions, but its system reports 4"):
        ExecutionPlanner({}, {"a": 4}).plan(spec_of(lambda app: keyed(app, "a", 8).sink(print)))


def test_host_affinity_in_batch_mode_is_rejected() -> None:
    for key in ("job.host-affinity.enabled", "yarn.samza.host-affinity.enabled"):
        with pytest.raises(HostAffinityInBatch, match=key):
            plan_of(lambda app: keyed(app, "a").sink(print), {"app.mode": "batch", key: "true"})
        plan_of(lambda app: keyed(app, "a").sink(print), {"app.mode": "batch", key: "false"})


@pytest.mark.parametrize(
    ("key", "value"), [("app.mode", "SOMETIMES"), ("task.window.ms", "soon"), ("streams.a.samza.priority", "high")]
)
def test_a_value_that_means_nothing_is_rejected_by_every_plan(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} is '{value}'"):
        plan_of(lambda app: keyed(app, "a").sink(print), {key: value})


def test_more_than_65_536_partitions_are_rejected_wherever_they_are_said() -> None:
    def describe(app: Any) -> None:
        keyed(app, "a").partition_by("c", id="p").sink(print)

    with pytest.raises(ConfigError, match=r"job\.intermediate\.stream\.partitions is '2147483648'"):
        plan_of(describe, {"job.intermediate.stream.partitions": "2147483648"})
    with pytest.raises(InvalidApplication, match=r"partitions=65537"):
        plan_of(lambda app: keyed(app, "a", 65_537).sink(print))
    with pytest.raises(UnresolvedPartitions, match="65537, and a stream has at most 65,536"):
        ExecutionPlanner({}, {"a": 65_537}).plan(spec_of(lambda app: app.input_stream("a", schema=ROW).sink(print)))
    assert ExecutionPlanner({}, {"a": 65_536}).plan(spec_of(lambda app: app.input_stream("a", schema=ROW).sink(print)))


def test_the_configuration_of_the_environment_overrides_the_application() -> None:
    def describe(app: Any) -> None:
        files(app, "a", 6).partition_by("k", id="p").window(tumbling("1 minute"), key="k", n=count(), id="w").sink(
            print
        )

    assert plan_of(describe, {"job.intermediate.stream.partitions": "3"}).stage("p").task_count == 3


def test_of_two_inputs_that_cannot_be_joined_the_later_one_is_to_be_repartitioned() -> None:
    def describe(app: Any) -> None:
        keyed(app, "a", 8).join(keyed(app, "b", 4), left, schema=ROW, key="k", ttl="1 hour", id="j").sink(print)

    (error,) = errors_of(describe)
    assert "Re-partition 'b' by 'k' before the join" in error.hint
    assert "it then takes the 8 partitions of 'a'" in error.hint


def test_an_intermediate_stream_that_has_its_count_from_another_join_is_the_one_to_be_repartitioned() -> None:
    def describe(app: Any) -> None:
        shared = files(app, "s").partition_by("k", id="by-k")
        keyed(app, "a", 4).join(shared, left, schema=ROW, key="k", ttl="1 hour", id="j").sink(print)
        table = app.pushed_table("t", key="k", schema="k bigint, n int", partitions=16)
        shared.join(table, left, schema=ROW, id="look-up").sink(print)

    (error,) = errors_of(describe)
    assert "Re-partition 'by-k' by 'k' before the join" in error.hint
    assert "it then takes the 16 partitions of 't-push'" in error.hint


def test_of_a_long_path_to_a_join_the_first_and_the_last_steps_are_told() -> None:
    def describe(app: Any) -> None:
        stream = keyed(app, "a", 8)
        for number in range(20):
            stream = stream.where("v > 0", id=f"w{number}")
        stream.join(keyed(app, "b", 4), left, schema=ROW, key="k", ttl="1 hour", id="j").sink(print)

    (error,) = errors_of(describe)
    steps = ["a", *(f"where w{number}" for number in range(5)), "…", *(f"where w{number}" for number in range(15, 20))]
    assert " → ".join([*steps, "join j"]) in error.sentence
