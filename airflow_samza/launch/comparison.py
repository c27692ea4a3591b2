"""Comparison of a run with another one: which run that is, and how the outputs of both differ."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamRole
from airflow_samza.application.expectations import UNIQUE
from airflow_samza.application.loader import load_application
from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.config import Config
from airflow_samza.errors import ConfigError, StageError, UnknownName
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.quoting import one_line
from airflow_samza.runs.compared_runs import last_finished, outputs_of, written_count, written_rows
from airflow_samza.runs.progress.run_list import find_run, plan_of
from airflow_samza.runs.records.comparison import Comparison, OutputComparison
from airflow_samza.runs.records.folders import RunFolder, replace
from airflow_samza.runs.records.run_plan import SIDE_INPUT, RunPlan
from airflow_samza.runs.stages.newest_stages import is_finished
from airflow_samza.secrecy import masked
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System, SystemBinding


def run_to_compare(files: Filesystem, request: RunRequest, as_of: str | None, other: str | None) -> RunPlan:
    """Return the plan of the run with which one is compared: the one that is named, or the last that has succeeded."""
    mine = load_application(request.application).spec(request.config).name
    name = mine if other is None else load_application(other).spec({}).name if ":" in other else other
    run = last_finished(files, name) if as_of is None else plan_of(files, find_run(files, name, as_of))
    if run is None:
        raise UnknownName(
            f"No run of {name!r} under {files.location('')} has succeeded, so there is nothing to compare with.",
            hint="Run it first: airflow-samza run. Is this the root (--root, --env) of the environment where it ran?",
            name=name,
        )
    if (run.application, run.run_id) == (mine, request.run_id):
        raise ConfigError(
            f"The run {run.run_id!r} cannot be compared with itself.",
            hint="Leave --run-id out, or name another run.",
            key="--run-id",
            value=run.run_id,
        )
    if not is_finished(files, run):
        raise StageError(
            f"The run {run.run_id!r} of {run.application!r} has not succeeded, so its outputs are not all there.",
            hint="Have it finished, or compare with another one (--as-of).",
            run=run.run_id,
        )
    return run


def compare_runs(
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    run: RunPlan,
    keys: Mapping[str, Sequence[str]],
    samples: int,
    *,
    shows: bool,
) -> Comparison:
    """Return how the outputs of a run differ from those of the run with which it is compared; keep it on record.

    On record all values are masked; in what is returned they are not if the caller ``shows`` them.
    """
    if run.compares is None:
        raise ConfigError(
            f"The run {run.run_id!r} of {run.application!r} is not compared with another one.",
            hint="Compare the application: airflow-samza compare.",
            key="--run-id",
            value=run.run_id,
        )
    base = plan_of(files, find_run(files, *run.compares))
    spec = load_application(run.reference).spec(run.config)
    _reject_unknown(keys, run)
    by_output = {**_declared_keys(spec, run), **{name: tuple(columns) for name, columns in keys.items()}}
    sides = [
        _Side(one, outputs_of(one), bind_systems(run_bindings(one.systems, bindings), files.root))
        for one in (base, run)
    ]
    kept = samples if Config(spec.config).messages_shown else 0
    clear, hidden = [], []
    for stream_id in sorted({*sides[0].outputs, *sides[1].outputs}):
        key = by_output.get(stream_id, ())
        if all(stream_id in side.outputs for side in sides):
            one = _compared(files, sides, stream_id, key, kept)
        else:
            one = _in_one_only(files, sides, stream_id, key)
        hidden.append(dataclasses.replace(one, samples=_texts(one.samples, masked)))
        clear.append(dataclasses.replace(one, samples=_texts(one.samples, lambda _, value: one_line(str(value)))))
    comparison = Comparison(
        run.application,
        run.run_id,
        base.application,
        base.run_id,
        tuple(hidden),
        tuple(_notes(base, run)),
        time.time(),
    )
    replace(files, RunFolder(run.application, run.run_id).comparison, comparison)
    return dataclasses.replace(comparison, outputs=tuple(clear)) if shows else comparison


class _Side(NamedTuple):
    """One of the two runs, with its systems."""

    run: RunPlan
    outputs: Collection[str]
    systems: Mapping[str, System]


def _compared(
    files: Filesystem, sides: Sequence[_Side], stream_id: str, key: tuple[str, ...], samples: int
) -> OutputComparison:
    from airflow_samza.task.row_differences import row_differences

    before, after = (written_rows(files, side.systems, side.run, stream_id) for side in sides)
    found = row_differences(before, after, key, samples=samples)
    return OutputComparison(
        stream_id,
        key,
        found.before,
        found.after,
        found.same,
        found.added,
        found.gone,
        found.different,
        dict(found.columns),
        found.columns_new,
        found.columns_gone,
        found.types,
        {kind: tuple(rows) for kind, rows in found.samples.items()},
    )


def _in_one_only(files: Filesystem, sides: Sequence[_Side], stream_id: str, key: tuple[str, ...]) -> OutputComparison:
    """Return the comparison of an output that one of the applications does not have."""
    before, after = (written_count(files, side.run, stream_id) if stream_id in side.outputs else 0 for side in sides)
    (one,) = (side.run.run_id for side in sides if stream_id in side.outputs)
    return OutputComparison(stream_id, key, before, after, 0, after, before, 0, only_in=one)


def _texts(
    samples: Mapping[str, tuple[Mapping[str, Any], ...]], text: Callable[[str, Any], str]
) -> dict[str, tuple[dict[str, str], ...]]:
    return {
        kind: tuple({name: text(name, value) for name, value in row.items()} for row in rows)
        for kind, rows in samples.items()
        if rows
    }


def _declared_keys(spec: ApplicationSpec, run: RunPlan) -> dict[str, tuple[str, ...]]:
    """Return the keys of outputs: that of the stream, else the columns that are expected to be unique."""
    keys = {}
    for stream_id, output in spec.outputs.items():
        unique = next((one.columns for one in output.expect if one.kind == UNIQUE), ())
        keys[stream_id] = run.stream(stream_id).spec.key or tuple(unique)
    return keys


def _reject_unknown(keys: Mapping[str, Sequence[str]], run: RunPlan) -> None:
    outputs = sorted(outputs_of(run))
    for name in keys:
        if name not in outputs:
            raise ConfigError(
                f"--key names the output {name!r}, and the application {run.application!r} has none of this name.",
                hint=f"{did_you_mean(name, outputs)}Its outputs are {listed(outputs)}.",
                key="--key",
                value=name,
            )


def _notes(base: RunPlan, run: RunPlan) -> Iterator[str]:
    """Yield what the runs have not read alike."""
    read = {
        one.run_id: {name for name, bound in one.streams.items() if bound.role in (SIDE_INPUT, StreamRole.INPUT.value)}
        for one in (base, run)
    }
    for name in sorted(read[run.run_id] - read[base.run_id]):
        yield f"The input {name!r} was not read by the run {base.run_id}; it was read as it is now."
    for name in sorted(read[base.run_id] - read[run.run_id]):
        yield f"The input {name!r} is not read any more."
