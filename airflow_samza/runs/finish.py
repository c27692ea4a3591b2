"""Roll a stage forward: commit its open epoch, publish it to every output, and write the result after the last one.

A process may die between any two steps, and another goes on. The race is between attempt A, which wakes up again, and
attempt B, which has taken its place: both finish the same epoch. The commit and the result are written by
``put_if_absent``, so the attempt that comes second adopts the record of the first. Both then publish the same commit,
and an output drops the second publication of an epoch that it has. The stage runner does it after each epoch; a retry,
the runtime and upkeep do it for one that died.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_samza.errors import ExpectationFailed, StageLost
from airflow_samza.grouping import grouped
from airflow_samza.planner.wording import operator_title
from airflow_samza.runs.expectations import judge, note_published
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.epoch_records import (
    Commit,
    InputIntent,
    Intent,
    Manifest,
    commit,
    ended_tasks,
    newest_intent,
    read_commit,
    read_manifests,
)
from airflow_samza.runs.records.expectations import Results
from airflow_samza.runs.records.folders import StageFolder, adopt, read_fixed
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.records.spans import Span, Stopwatch, seconds_of
from airflow_samza.runs.records.stage_result import CODE, InputResult, OutputResult, StageResult, key_warnings
from airflow_samza.runs.stages.running_times import spans_before
from airflow_samza.runs.stages.stage_state import StageHandle, newest_attempt, newest_request
from airflow_samza.runs.state_history.held_versions import hold_read
from airflow_samza.runs.state_history.state_at_end import before_commit
from airflow_samza.systems.capabilities import (
    Delivery,
    LocatesStreams,
    ReplacesSlots,
    TellsWhatIsRead,
    after_a_retry,
    delivery_of,
)
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.system import Publication, StreamSpec, System

Facts = Mapping[str, Mapping[str, Any]]
"""Facts that systems returned when an epoch was published to them, by stream id."""


def finish_stage(
    files: Filesystem,
    systems: Mapping[str, System],
    run_plan: RunPlan,
    stage_id: str,
    generation: Generation,
    folder: StageFolder,
    intent: Intent | None = None,
    *,
    watch: Stopwatch | None = None,
) -> StageResult:
    """The result of a stage whose tasks have ended; commits and publishes whatever is not yet committed and published.

    An epoch that is open is rolled forward also when it is not the last one; the stage is then :class:`StageLost` all
    the same, until it is submitted again. ``intent`` is that of the newest epoch, where the caller knows it, ``watch``
    that of the attempt that has run the stage, where this is its process.
    """
    standing = read_fixed(files, folder.result, StageResult)
    if standing is not None:
        return standing
    intent = newest_intent(files, folder) if intent is None else intent
    if intent is None:
        raise StageLost(
            f"The stage {stage_id} (generation {generation}) has not started.",
            hint="Submit it first.",
            stage=stage_id,
            generation=str(generation),
        )
    watch = watch_of_finisher(files, run_plan, stage_id, generation, intent) if watch is None else watch
    manifests = read_manifests(files, folder, intent)
    committed, facts = finish_epoch(
        files, systems, run_plan, generation, folder, intent, manifests, seconds=watch.seconds
    )
    if not committed.is_last:
        raise StageLost(
            f"The stage {stage_id} (generation {generation}) is not over: {committed.totals.epochs} epochs are "
            f"committed, and {intent.tasks - len(committed.ended)} of its {intent.tasks} tasks go on.",
            hint="Submit it again: it goes on with the next epoch; "
            f"{after_a_retry(stage_deliveries(run_plan, systems, stage_id))}.",
            stage=stage_id,
            generation=str(generation),
        )
    return end_stage(files, run_plan, generation, folder, intent, committed, facts, watch)


def watch_of_finisher(
    files: Filesystem, run_plan: RunPlan, stage_id: str, generation: Generation, intent: Intent
) -> Stopwatch:
    """Return the watch of a process that finishes what attempts have left: it goes on from where their watches stood.

    Where these have told nothing, the time from the first epoch to the last commit stands for it.
    """
    handle = StageHandle(run_plan.application, run_plan.run_id, stage_id, generation)
    mine = newest_attempt(files, handle.folder) + 1
    former = spans_before(files, handle, mine)
    if not former:
        committed = read_commit(files, handle.folder, intent.epoch)
        began_at, until = (
            (intent.decided_at, intent.decided_at)
            if committed is None
            else (committed.totals.began_at, committed.committed_at)
        )
        former = (Span(0, began_at, max(until - began_at, 0.0)),)
    watch = Stopwatch(mine, former)
    watch.start()
    return watch


def finish_epoch(
    files: Filesystem,
    systems: Mapping[str, System],
    run_plan: RunPlan,
    generation: Generation,
    folder: StageFolder,
    intent: Intent,
    manifests: Sequence[Manifest],
    former: Commit | None = None,
    seconds: float | None = None,
) -> tuple[Commit, Facts]:
    """Commits an epoch and publishes it to every output that does not wait for an approval.

    ``former`` is the commit before it, where the caller has read it, ``seconds`` the time for which attempts have
    run the stage by now.
    """
    results = _judged(files, run_plan, folder, intent, manifests, former)
    reach("before-commit")
    before_commit(files, run_plan)
    committed = commit(files, folder, intent, manifests, former, seconds, results)
    reach("after-commit")
    if results:
        files.delete_tree(folder.keys(intent.epoch))
    held = run_plan.held(intent.stage)
    at_once = [stream_id for stream_id in intent.outputs if stream_id not in held]
    facts = publish_epoch(files, systems, run_plan, generation, intent, manifests, committed, at_once)
    _tell_read(systems, run_plan, intent, manifests)
    if committed.is_last:
        hold_read(files, systems, run_plan, {name: read.slice for name, read in intent.inputs.items()})
    return committed, facts


def publish_epoch(
    files: Filesystem,
    systems: Mapping[str, System],
    run_plan: RunPlan,
    generation: Generation,
    intent: Intent,
    manifests: Sequence[Manifest],
    committed: Commit,
    outputs: Collection[str],
) -> Facts:
    """Publish some outputs of an epoch that is committed; again, it changes nothing more."""
    facts: dict[str, Mapping[str, Any]] = {}
    for stream_id in outputs:
        staged = {
            manifest.task: manifest.staged[stream_id].described
            for manifest in manifests
            if stream_id in manifest.staged
        }
        messages = sum(manifest.staged[stream_id].messages for manifest in manifests if stream_id in manifest.staged)
        control = committed.control_messages(stream_id)
        if not run_plan.is_own(stream_id):  # the run's section of a stream that applications share (rule C10)
            control = tuple(replace(message, run=run_plan.run_id) for message in control)
        if not (messages or control or committed.is_last):
            continue  # an epoch that adds nothing is no news to anybody
        bound = output_stream(run_plan, stream_id, generation)
        begins = committed.is_last or intent.epoch == 0
        former = _former_writers(files, systems, run_plan, stream_id) if begins else {}
        publication = Publication(
            producer=run_plan.producer(intent.stage),
            generation=str(generation),
            epoch=intent.epoch,
            staged=staged,
            control=control,
            final=committed.is_last,
            slot=run_plan.slot_of(stream_id),
            root=run_plan.root_of(stream_id),
            continues=committed.totals.written.get(stream_id, {}).get("messages", 0) > messages,
            former=tuple(former),
        )
        facts[stream_id] = systems[bound.system].publish(bound.spec, publication)
        reach("after-first-publish")
        for (producer, _), spec in former.items():  # from now on they publish no more
            systems[bound.system].publish(
                spec,
                Publication(
                    producer=producer,
                    generation=str(Generation(run_plan.generation, generation.stage)),
                    epoch=0,
                    staged={},
                    slot=publication.slot,
                    root=publication.root,
                ),
            )
    return facts


def _judged(
    files: Filesystem,
    run_plan: RunPlan,
    folder: StageFolder,
    intent: Intent,
    manifests: Sequence[Manifest],
    former: Commit | None,
) -> Results:
    """Return the results of what is expected of an epoch that is not committed yet."""
    if not any(manifest.checked for manifest in manifests) or read_commit(files, folder, intent.epoch) is not None:
        return {}
    if former is None and intent.epoch > 0:
        former = read_commit(files, folder, intent.epoch - 1)
    is_last = len(ended_tasks(manifests, former)) >= intent.tasks
    try:
        return judge(files, run_plan, folder, intent, manifests, former, is_last=is_last)
    except (OSError, ExpectationFailed):
        if read_commit(files, folder, intent.epoch) is None:
            raise
        return {}  # another process has committed it meanwhile, and deleted the keys


def _former_writers(
    files: Filesystem, systems: Mapping[str, System], run_plan: RunPlan, stream_id: str
) -> dict[tuple[str, str], StreamSpec]:
    """Return the outputs of former plans that wrote to the place of an output and write no more, by producer and name.

    A stage or a stream that was renamed is another writer: beside its output that of the former one would stand, too
    (rule O1). So it is replaced by nothing.
    """
    bound = run_plan.stream(stream_id)
    if run_plan.generation == 1 or run_plan.is_own(stream_id) or not isinstance(systems[bound.system], ReplacesSlots):
        return {}
    place = _place_of(bound, systems)
    writers = _writers_of(run_plan, place, systems)
    numbers = (number for number in run_plan.folder.plan_generations(files) if number < run_plan.generation)
    plans = (read_fixed(files, run_plan.folder.plan(number), RunPlan) for number in numbers)
    return {
        (run_plan.producer(stage_id), former.stream(written).spec.name): former.stream(written).spec
        for former in plans
        if former is not None
        for stage_id, written in sorted(_writers_of(former, place, systems) - writers)
        if run_plan.folder.generations(files, stage_id)  # otherwise it has never begun
    }


def _place_of(bound: BoundStream, systems: Mapping[str, System]) -> tuple[str, str]:
    """Return where an output lies, whatever its name is: of a table that is the table."""
    system: object = systems.get(bound.system)
    if isinstance(system, LocatesStreams):
        return "", system.location(bound.spec)
    return bound.system, bound.spec.path or bound.spec.name


def _writers_of(run_plan: RunPlan, place: tuple[str, str], systems: Mapping[str, System]) -> set[tuple[str, str]]:
    """Return the stages of a plan that write to a place outside of the run, each with the stream."""
    return {
        (stage.stage_id, bound.stream_id)
        for stage, bound in run_plan.written_outside()
        if _place_of(bound, systems) == place
    }


def _tell_read(systems: Mapping[str, System], run_plan: RunPlan, intent: Intent, manifests: Sequence[Manifest]) -> None:
    """Have systems show how far the sources of a committed epoch are read, where streams ask for that.

    A run that is compared with another one does not show where it reads.
    """
    if run_plan.compares is not None:
        return
    for bound, system in run_plan.outside(intent.inputs, systems, TellsWhatIsRead):
        read = grouped(reached for one in manifests for reached in one.next_offsets.get(bound.stream_id, {}).items())
        if read:  # of a broadcast the slowest task counts
            system.tell_read(bound.spec, {partition: min(offsets) for partition, offsets in read.items()})


def end_stage(
    files: Filesystem,
    run_plan: RunPlan,
    generation: Generation,
    folder: StageFolder,
    intent: Intent,
    committed: Commit,
    facts: Facts,
    watch: Stopwatch,
) -> StageResult:
    """Writes the result of a stage whose last epoch is published, or adopts the one that stands."""
    result = _result(run_plan, intent, generation, committed, facts, watch)
    request = newest_request(files, folder)
    parts = run_plan.fingerprints.get(intent.stage)
    if parts and request is not None:
        result = replace(result, fingerprint={**parts, CODE: request.code})
    note_published(files, run_plan, (output for output in result.outputs if not output.held))
    reach("before-result")
    standing = adopt(files, folder.result, result)
    reach("after-result")
    return standing


def output_stream(run_plan: RunPlan, stream_id: str, generation: Generation) -> BoundStream:
    """An output of a stage as this generation of the stage writes it."""
    if run_plan.is_own(stream_id):
        return run_plan.intermediate(stream_id, generation)
    return run_plan.through(run_plan.stream(stream_id), generation)


def _result(
    run_plan: RunPlan, intent: Intent, generation: Generation, committed: Commit, facts: Facts, watch: Stopwatch
) -> StageResult:
    totals, ran = committed.totals, watch.spans
    inputs = []
    for stream_id, read_intent in intent.inputs.items():
        counts = totals.read.get(stream_id, {})
        inputs.append(
            InputResult(
                stream_id=stream_id,
                system=run_plan.stream(stream_id).system,
                stream=read_intent.stream,
                partitions=run_plan.plan.stream(stream_id).partitions,
                messages=counts.get("messages", 0),
                control=counts.get("control", 0),
                bytes=counts.get("bytes", 0),
                unit=run_plan.unit(stream_id),
                expectations=committed.expectations.get(stream_id, ()),
                **_largest(run_plan, stream_id, read_intent),
            )
        )
    outputs = [
        _output(run_plan, stream_id, generation, committed, facts.get(stream_id, {})) for stream_id in intent.outputs
    ]
    return StageResult(
        application=run_plan.application,
        run_id=run_plan.run_id,
        stage_id=intent.stage,
        generation=str(generation),
        tasks=intent.tasks,
        seconds=seconds_of(ran),
        task_seconds=totals.task_seconds,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        task_facts=totals.facts,
        epochs=totals.epochs,
        requests=requests.take(),
        ran=ran,
        warnings=tuple(key_warnings(run_plan.plan, intent.stage, totals.facts)),
    )


def _largest(run_plan: RunPlan, stream_id: str, read_intent: InputIntent) -> dict[str, int]:
    """Return which partition of an input had the most offsets for the run, how many, and those of all."""
    slice_ = read_intent.slice or {}
    ends = [int(end) for _, end in slice_.get("offsets") or ()]
    if "chunks" in slice_ or len(ends) < 2:
        return {}
    planned = () if run_plan.is_own(stream_id) else (run_plan.stream(stream_id).slice or {}).get("offsets") or ()
    begins = [int(begin) for begin, _ in planned]
    sizes = [end - (begins[place] if place < len(begins) else 0) for place, end in enumerate(ends)]
    largest = max(sizes)
    return {"largest": sizes.index(largest), "largest_offsets": largest, "offsets": sum(sizes)} if largest else {}


def _output(
    run_plan: RunPlan, stream_id: str, generation: Generation, committed: Commit, facts: Mapping[str, Any]
) -> OutputResult:
    bound = output_stream(run_plan, stream_id, generation)
    partitions = run_plan.plan.stream(stream_id).partitions
    counts = committed.totals.written.get(stream_id, {})
    published_bytes = facts.get("bytes")
    return OutputResult(
        stream_id=stream_id,
        system=bound.system,
        stream=bound.spec.name,
        partitions=partitions,
        messages=counts.get("messages", 0),
        control=counts.get("control", 0) * partitions,
        bytes=counts.get("bytes", 0) or (int(published_bytes) if isinstance(published_bytes, int | float) else 0),
        own=run_plan.is_own(stream_id),
        # Of several epochs only the last one's numbers were told, and would be taken for the stage's.
        facts=facts
        if committed.totals.epochs == 1
        else {name: value for name, value in facts.items() if isinstance(value, str)},
        unit=run_plan.unit(stream_id),
        expectations=committed.expectations.get(stream_id, ()),
        held=stream_id in run_plan.approvals,
    )


CALLED_AGAIN = Delivery(False, "its function is called again with the messages of an epoch that is run again")
WRITTEN_AGAIN = Delivery(False, "the rows of an epoch that is run again are written again")


def stage_deliveries(run: RunPlan, systems: Mapping[str, System], stage_id: str) -> dict[str, Delivery]:
    """Return them by the words for what they are of; topics of the run itself are left out, which readers see once."""
    stage = run.plan.stage(stage_id)
    deliveries = {}
    for stream_id in stage.outputs:
        if not run.is_own(stream_id):
            bound = run.stream(stream_id)
            deliveries[f"the output {stream_id!r}"] = delivery_of(systems[bound.system], bound.spec)
    for op_id in stage.operators:
        operator = run.plan.operator(op_id)
        if operator.op == "sink":
            deliveries[f"the calls of {operator_title(operator)}"] = CALLED_AGAIN
    for table in run.plan.tables:
        if table.kind == "remote" and set(table.writers) & set(stage.operators):
            deliveries[f"the remote table {table.table_id!r}"] = WRITTEN_AGAIN
    return deliveries
