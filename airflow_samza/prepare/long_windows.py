"""Inputs of several data intervals: their range, and the partial results of single intervals that runs share.

A run that reads the last 90 days computes what the run of yesterday computed of 89 of them. Where a stage sends nothing
but partial results of aggregations, those of each interval are kept under the root, named by all that they follow from:
the files of the interval, and the meaning of the stage (decision 117).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_samza import __version__
from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.operator_spec import CATALYST, KeyedResultSpec
from airflow_samza.application.operator_specs import MapAsyncSpec, ReadTimeSpec
from airflow_samza.errors import ConfigError
from airflow_samza.planner.plan import Stage
from airflow_samza.planner.stage_code import is_comparable
from airflow_samza.planner.wording import count_text
from airflow_samza.prepare.kept_stages import facts_digest
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.records import plain
from airflow_samza.runs.records.data_interval import last_intervals, needed_interval, render_path
from airflow_samza.runs.records.names import KEPT_RESULTS, partial_path, partials_folder
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.systems.capabilities import SlicesIntervals
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System
from airflow_samza.task.operators.aggregation.partial_groups import BY_VALUES

_NOT_OF_THE_MEANING = ("intervals", "partitions")
"""Declared facts of an input that make no difference to what becomes of one of its intervals."""

_DIGITS = 32


def intervals_slice(
    declared: StreamDescriptor, bound: BoundStream, system: System, spec: ApplicationSpec, request: RunRequest
) -> dict[str, Any]:
    """Return the range of an input of several data intervals, the last of which is the run's own."""
    assert declared.intervals is not None
    assert declared.path is not None
    what = f"intervals={declared.intervals}"
    if not isinstance(system, SlicesIntervals):
        raise ConfigError(
            f"The input {declared.stream_id!r} has {what}, and its system {bound.system!r} has no files of intervals.",
            hint="Bind it to a system of kind files, or leave intervals= out.",
            key="intervals",
            stream=declared.stream_id,
        )
    own = needed_interval(request.interval, stream=declared.stream_id, what=what, partition_key=request.partition_key)
    try:
        intervals = last_intervals(own, declared.intervals, declared.path)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"The first of the data intervals of the input {declared.stream_id!r} ({what}) is before the year 1.",
            hint="Write fewer intervals.",
            key="intervals",
            stream=declared.stream_id,
        ) from None
    paths = [
        render_path(
            declared.path,
            stream=declared.stream_id,
            interval=each,
            run_id=request.run_id,
            config=spec.config,
            partition_key=request.partition_key,
        )
        for each in intervals
    ]
    return system.slice_intervals([dataclasses.replace(bound.spec, path=path) for path in dict.fromkeys(paths)])


def with_kept_results(files: Filesystem, spec: ApplicationSpec, run: RunPlan, digests: Mapping[str, str]) -> RunPlan:
    """Return the plan with the names of the partial results that its stages share with other runs, and a note on each.

    ``digests`` are those of the stages' callables.
    """
    streams, notes = dict(run.streams), {stage_id: dict(texts) for stage_id, texts in run.notes.items()}
    for stage in run.plan.stages:
        for stream_id in stage.inputs:
            slice_ = streams[stream_id].slice or {}
            if "intervals" not in slice_:
                continue
            why = next(_reasons(spec, run, stage, digests.get(stage.stage_id, "")), None)
            count = count_text(len(slice_["intervals"]), "data interval")
            if why is None:
                folder = _folder(run, stage, stream_id, digests[stage.stage_id])
                names = _names(slice_)
                kept = {**slice_.get(KEPT_RESULTS, {}), stage.stage_id: {"folder": folder, "names": names}}
                streams[stream_id] = dataclasses.replace(streams[stream_id], slice={**slice_, KEPT_RESULTS: kept})
                text = f"reads {count}{_counts(files, folder, names, len(stage.outputs))}"
            else:
                text = f"reads {count}, all of them in every run: {why}"
            texts = notes.setdefault(stage.stage_id, {})
            texts[stream_id] = f"{texts[stream_id]}; {text}" if stream_id in texts else text
    return dataclasses.replace(run, streams=streams, notes=notes)


def _counts(files: Filesystem, folder: str, names: list[list[str]], outputs: int) -> str:
    kept = set(files.list(folder))
    filled = [[name for name in of_interval if name] for of_interval in names]
    filled = [of_interval for of_interval in filled if of_interval]
    used = sum(
        all(partial_path("", name, output)[1:] in kept for name in of_interval for output in range(outputs))
        for of_interval in filled
    )
    empty = f", {len(names) - len(filled)} without files" if len(filled) < len(names) else ""
    return f"{empty}; partial results of {used} are kept, and of {len(filled) - used} are computed"


def _reasons(spec: ApplicationSpec, run: RunPlan, stage: Stage, code: str) -> Iterator[str]:
    """Yield why partial results of a stage cannot be kept."""
    operators = spec.operators_of(stage.operators)
    if run.runs_epochs(stage.stage_id):
        yield "the stage runs epoch by epoch"
    if len(stage.inputs) > 1 or stage.side_inputs:
        yield f"the stage reads {', '.join((*stage.inputs, *stage.side_inputs))}"
    if any(run.plan.stream(stream_id).broadcast for stream_id in stage.inputs):
        yield f"every task reads all of {stage.inputs[0]}"
    if stage.tables:
        yield f"the stage uses the table {stage.tables[0]}"
    for stream_id in stage.outputs:
        content = run.contents.get(stream_id)
        if not run.is_own(stream_id):
            yield f"the stage writes {stream_id}, and not only partial results"
        elif content is None or content.combined_for is None:
            yield _why_whole(spec, stream_id)
    for operator in operators:
        if isinstance(operator, MapAsyncSpec | ReadTimeSpec):
            yield f"{operator.title} may give something else another time"
        if run.engines.get(stage.stage_id, {}).get(operator.op_id, ("",))[0] == CATALYST:
            yield f"{operator.title} runs in Catalyst"
    if not is_comparable(code):
        yield "callables of the stage cannot be compared with those of other runs"


def _why_whole(spec: ApplicationSpec, stream_id: str) -> str:
    """Return why whole messages go through a topic."""
    source = spec.input_operator(stream_id).op_id
    for reader in spec.operators:
        if any(each.op_id == source for each in reader.inputs) and isinstance(reader, KeyedResultSpec):
            for aggregation in reader.aggregations:
                if aggregation.function in BY_VALUES:
                    return f"results of {aggregation.function} in {reader.title} cannot be merged"
    return f"whole messages, and not partial results, go through {stream_id}"


def _folder(run: RunPlan, stage: Stage, stream_id: str, code: str) -> str:
    """Return the folder of the results that a stage makes of an interval, named by what it does with the messages."""
    stream = {
        name: text for name, text in run.declared[f"stream {stream_id}"].items() if name not in _NOT_OF_THE_MEANING
    }
    bound = run.streams[stream_id]
    contents = {output: plain(run.contents[output]) for output in stage.outputs}
    aggregates = [f"operator {run.contents[output].combined_for}" for output in stage.outputs]
    meaning = [
        __version__,
        code,
        [[op_id, run.declared.get(f"operator {op_id}", {})] for op_id in stage.operators],
        [run.declared.get(aggregate, {}) for aggregate in aggregates],
        run.declared.get("configuration", {}),
        stream,
        [bound.spec.schema, bound.slice and bound.slice["schema"], run.schemas.get(stream_id)],
        [bound.spec.options, bound.spec.tolerant, bound.slice and bound.slice["format"]],
        contents,
    ]
    return f"{partials_folder(run.application, run.app_id)}/{facts_digest(meaning, _DIGITS)}"


def _names(slice_: Mapping[str, Any]) -> list[list[str]]:
    """Return, by interval and partition, the names of results: of the files, and of the parts of them, that are read.

    A name says nothing of the partition: what lies there is the same wherever it was read.
    """
    begun = [0] * len(slice_["splits"])
    names = []
    for interval in slice_["intervals"]:
        of_interval = []
        for partition, count in enumerate(interval["splits"]):
            splits = slice_["splits"][partition][begun[partition] : begun[partition] + count]
            begun[partition] += count
            parts = [[slice_["files"][file], start, end] for file, start, end in splits]
            of_interval.append(facts_digest(parts, _DIGITS) if parts else "")
        names.append(of_interval)
    return names
