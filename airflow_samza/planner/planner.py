"""The planner: from an application to an ExecutionPlan, as an ordered list of passes. Pure: no I/O, no SQL parsing.

1. ``collect_operator_graph`` walks the operators from the inputs.
2. ``build_stream_edges`` finds the writers, the readers and the boundedness of the streams.
3. ``initial_counts`` takes the counts that systems report and the application declares.
4. ``pin_counts`` keeps the counts that an earlier plan of a stateful application chose.
5. ``group_joined_streams`` finds which streams meet in which join.
6. ``spread_over_joins`` spreads counts through these groups.
7. ``fill_the_rest`` takes the configured count, else the maximum, capped.
8. ``reject_mismatches`` rejects joins of streams with different counts.
9. ``find_replication`` finds what every task holds alike, and which tasks handle it.
10. ``track_partitionings`` finds by which columns every edge is partitioned.
11. ``check_keys`` rejects joins and keyed operators whose rows do not lie as needed.
12. ``cut_stages`` cuts the graph at intermediate streams.

The plan step and the test driver run all passes; a Dag file that is parsed gets the shape of the plan alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamRole
from airflow_samza.config import Config
from airflow_samza.errors import ConfigError, PlanChanged, PlanError, raise_all
from airflow_samza.planner.chooser_keys import check_chooser_keys
from airflow_samza.planner.describe import describe_operators, describe_streams, describe_tables
from airflow_samza.planner.job_graph import JobGraph, collect_operator_graph
from airflow_samza.planner.join_groups import group_joined_streams
from airflow_samza.planner.join_rejections import reject_mismatches
from airflow_samza.planner.key_rejections import check_keys
from airflow_samza.planner.partition_counts import (
    Counts,
    PartitionCount,
    fill_the_rest,
    initial_counts,
    pin_counts,
    spread_over_joins,
)
from airflow_samza.planner.partitioning import stream_partitionings, track_partitionings
from airflow_samza.planner.plan import ExecutionPlan, JoinGroup, Stage
from airflow_samza.planner.replication import Replication, find_replication
from airflow_samza.planner.stages import cut_stages, with_task_counts
from airflow_samza.planner.stream_edges import StreamEdge, build_stream_edges
from airflow_samza.planner.watermark_warnings import (
    endless_state,
    histories_without_state,
    silent_inputs,
    unchecked_times,
    waits_for_silent_inputs,
    waits_for_the_end,
)
from airflow_samza.planner.wording import count_text


class HostAffinityInBatch(ConfigError):
    """Host affinity was asked for in batch mode."""

    rule = "host-affinity-batch"


class ExecutionPlanner:
    """A planner of applications, for one configuration and the facts that systems report of streams.

    It reads nothing itself, so plans can be made without any system, in tests for instance.

    ```python
    plan = ExecutionPlanner(stream_metadata={"views": 2, "clicks": 2}).plan(page_views.spec())
    tasks = {stage.stage_id: stage.task_count for stage in plan.stages}
    ```

    :param config: Configuration keys, over those of the application.
    :param stream_metadata: The partition counts of streams, by their ids.
    :param stream_kinds: The kinds of the systems of streams (``"log"``, ``"files"``, ``"kafka"``, …), by the streams'
        ids.
    :param stream_systems: The names of the systems in which streams lie, by the streams' ids.
    """

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        stream_metadata: Mapping[str, int] | None = None,
        stream_kinds: Mapping[str, str] | None = None,
        stream_systems: Mapping[str, str] | None = None,
    ) -> None:
        self._config = dict(config or {})
        self._metadata = dict(stream_metadata or {})
        self._kinds = dict(stream_kinds or {})
        self._systems = dict(stream_systems or {})

    def plan(self, spec: ApplicationSpec, pinned: ExecutionPlan | None = None) -> ExecutionPlan:
        """Return the plan of an application.

        :param spec: The described application.
        :param pinned: The last plan of the application, whose partition counts its state depends on (rule P10).
        :raises PlanError: The application has a conflict; several are raised together, as
            :class:`~airflow_samza.errors.PlanErrors`.
        :raises ConfigError: A configuration key that the plan depends on has an invalid value.
        """
        config = {**spec.config, **self._config}
        _check_mode(Config(config))
        Config(config).check()
        check_chooser_keys(spec, Config(config), self._systems)
        graph = collect_operator_graph(spec)
        edges = build_stream_edges(spec, graph, self._kinds)
        errors = list(endless_state(graph, edges))
        counts, unknown_counts = initial_counts(edges, self._metadata)
        errors += unknown_counts
        if pinned is not None:
            errors += _check_same_application(spec, pinned) or pin_counts(pinned, graph.operators, edges, counts)
        groups = group_joined_streams(graph, edges)
        spread_over_joins(counts, groups, edges)
        fill_the_rest(counts, edges, config)
        errors += reject_mismatches(groups, counts, graph, edges)
        replication = find_replication(
            graph.operators, lambda stream_id: stream_id in edges and edges[stream_id].broadcast
        )
        states = track_partitionings(spec, graph, edges, counts, replication)
        partitionings = stream_partitionings(spec, edges, states)
        findings = check_keys(spec, graph, edges, states, partitionings, counts)
        errors += findings.errors
        raise_all([_with_place(error) for error in errors])
        stages = with_task_counts(cut_stages(graph), counts, edges)
        _count_outputs(counts, stages, edges)
        return ExecutionPlan(
            application=spec.name,
            app_id=spec.app_id,
            operators=describe_operators(graph, _handled_by_one(graph, stages, replication), findings.checks),
            streams=describe_streams(spec, edges, counts, partitionings),
            tables=describe_tables(spec, graph),
            join_groups=tuple(JoinGroup(group.join.op_id, group.streams) for group in groups),
            stages=stages,
            warnings=(
                *findings.warnings,
                *_idle_streams(edges, graph),
                *_unread_partitions(stages, counts, edges),
                *waits_for_the_end(graph, edges, stages),
                *histories_without_state(graph, edges),
                *silent_inputs(graph, edges),
                *unchecked_times(graph, edges),
                *(waits_for_silent_inputs(graph, edges) if Config(config).watermark_idle_timeout_ms is None else ()),
            ),
            key_checks=tuple(findings.checks),
        )


def plan_shape(spec: ApplicationSpec) -> ExecutionPlan:
    """Return the plan of an application without partition counts: the same stages in the same order.

    It asks no system and takes milliseconds. Counts are 0.

    ```python
    shape = plan_shape(page_views.spec())
    stages = [stage.stage_id for stage in shape.stages]
    ```

    :param spec: The described application.
    """
    graph = collect_operator_graph(spec)
    edges = build_stream_edges(spec, graph)
    raise_all([_with_place(error) for error in endless_state(graph, edges)])
    return ExecutionPlan(
        application=spec.name,
        app_id=spec.app_id,
        operators=describe_operators(graph),
        streams=describe_streams(spec, edges, {}, stream_partitionings(spec, edges, {})),
        tables=describe_tables(spec, graph),
        join_groups=(),
        stages=cut_stages(graph),
        shape_only=True,
    )


def _with_place(error: PlanError) -> PlanError:
    """The error with the place in the user's code that its facts name, at the end of its sentence."""
    place = error.facts.get("location")
    if place is None or str(place) in error.sentence:
        return error
    return type(error)(f"{error.sentence.removesuffix('.')} ({place}).", hint=error.hint, **error.facts)


def _check_mode(config: Config) -> None:
    key = config.host_affinity_key
    if config.app_mode == "BATCH" and key is not None and config.host_affinity:
        raise HostAffinityInBatch(
            f"{key} is 'true' with app.mode 'BATCH': a batch leaves no state behind that a host could keep.",
            hint="Remove one of the two keys.",
            key=key,
            value="true",
        )


def _check_same_application(spec: ApplicationSpec, pinned: ExecutionPlan) -> list[PlanError]:
    if (pinned.application, pinned.app_id) == (spec.name, spec.app_id):
        return []
    return [
        PlanChanged(
            f"The last plan belongs to {pinned.application}-{pinned.app_id}, not to {spec.name}-{spec.app_id}.",
            hint="Give the last plan of this application, or none.",
            application=spec.name,
            plan=pinned.fingerprint,
        )
    ]


def _count_outputs(counts: Counts, stages: Sequence[Stage], edges: Mapping[str, StreamEdge]) -> None:
    """Give an output without a declared count as many partitions as tasks write it."""
    for stage in stages:
        for stream_id in stage.outputs:
            if edges[stream_id].role is StreamRole.OUTPUT and (
                stream_id not in counts or counts[stream_id].reason.startswith("one per")
            ):
                former = counts[stream_id].count if stream_id in counts else 0
                if stage.task_count > former:
                    counts[stream_id] = PartitionCount(stage.task_count, f"one per task of stage {stage.stage_id}")


def _idle_streams(edges: Mapping[str, StreamEdge], graph: JobGraph) -> Iterator[str]:
    for stream_id, edge in edges.items():
        read = any(graph.outputs.get(op.op_id) for op in edge.readers) or edge.side_input_of
        if edge.is_intermediate and not read:
            yield f"The intermediate stream {stream_id!r} is written, but nothing reads it."
        elif edge.role is StreamRole.INPUT and not read:
            yield f"The input stream {stream_id!r} is declared, but nothing reads it."
        elif edge.role is StreamRole.OUTPUT and not edge.writers:
            yield f"The output stream {stream_id!r} is declared, but nothing is sent to it."


def _unread_partitions(stages: Sequence[Stage], counts: Counts, edges: Mapping[str, StreamEdge]) -> list[str]:
    """Task k holds partition k of a side input, so no task holds those beyond the tasks.

    Joins are rejected then, low-level tasks are not.
    """
    return [
        f"The side input {stream_id!r} has {counts[stream_id].count} partitions, and the stage {stage.stage_id} "
        f"{count_text(stage.task_count, 'task')}: the rows of the others are in no table. Give its inputs "
        "as many partitions, or declare it broadcast."
        for stage in stages
        for stream_id in stage.side_inputs
        if stream_id in counts and not edges[stream_id].broadcast and counts[stream_id].count > stage.task_count
    ]


def _handled_by_one(graph: JobGraph, stages: Sequence[Stage], replication: Replication) -> frozenset[str]:
    """The operators of stages of several tasks to which task 0 alone hands what is broadcast."""
    crowded = {op_id for stage in stages if stage.task_count > 1 for op_id in stage.operators}
    return frozenset(
        op.op_id
        for op in graph.operators
        if op.op_id in crowded and not all(replication.reaches(source, op) for source in op.inputs)
    )
