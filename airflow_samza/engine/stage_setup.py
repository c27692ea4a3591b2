"""A stage made ready to run: its program, its output topics, and the work of its tasks.

The engine on Spark makes a stage ready by it, also for epochs beside the driver.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_samza.application.code_digest import CodeDigests
from airflow_samza.application.descriptors import TableDescriptor
from airflow_samza.config import Config
from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.stage_task import StageTask
from airflow_samza.prepare.publication import output_claim
from airflow_samza.runs.finish import output_stream
from airflow_samza.runs.records.epoch_records import StageTopics
from airflow_samza.runs.records.folders import read, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import IdentifiesTopics, PublishesForGood
from airflow_samza.systems.log.topic import other_topic
from airflow_samza.systems.system import System, SystemBinding
from airflow_samza.task.program.stage_program import ProgramSource, StageProgram
from airflow_samza.task.tables.side_inputs import processor_factory


@dataclass(frozen=True)
class StageSetup:
    """The program, the output topics and the work of the tasks, which all epochs of an attempt share."""

    program: StageProgram
    outputs: Mapping[str, BoundStream]
    task: StageTask


def set_up_stage(
    context: StageContext,
    inputs: Mapping[str, BoundStream],
    source: ProgramSource,
    program: StageProgram,
    bindings: Mapping[str, Any],
    *,
    has_hosts: bool = False,
) -> StageSetup:
    """Make the topics that a compiled stage writes, and leave its program where its tasks find it.

    ``bindings`` are the systems' in the form in which they travel. With ``has_hosts`` tasks run on hosts that keep
    copies of their state.
    """
    handle, run, files = context.handle, context.run, context.files
    outputs = {
        stream_id: bound_output(run, program, stream_id, handle.generation) for stream_id in program.stage.outputs
    }
    make_topics(context, outputs)
    path = handle.folder.attempt(handle.attempt, "program")
    write_once(files, path, source)
    config = Config(program.spec.config)
    task = StageTask(
        root=files.root,
        bindings=bindings,
        stage=handle.stage_id,
        stage_folder=handle.folder.path,
        program=path,
        inputs={stream_id: replace(bound, slice=None) for stream_id, bound in inputs.items()},
        outputs=outputs,
        host_dir=config.store_local_dir or "" if has_hosts and config.host_affinity else None,
        side_inputs={
            stream_id: replace(run.side_input(stream_id), slice=None) for stream_id in program.stage.side_inputs
        },
        digests=_processor_digests(program, run.reference, context.attempt.request.code),
        code=context.attempt.request.code,
    )
    return StageSetup(program, outputs, task)


def make_topics(context: StageContext, outputs: Mapping[str, BoundStream]) -> None:
    """Make the topics that the stage writes.

    Once it has begun, its own must be there: one made anew would lack what it has written.
    """
    path = context.handle.folder.topics
    topics = read(context.files, path, StageTopics)
    own = {}
    for stream_id, bound in outputs.items():
        system = context.systems[bound.system]
        is_own = context.run.is_own(stream_id) or bound.spec.through is not None
        if is_own and topics is not None and topics.topics.get(stream_id) and isinstance(system, IdentifiesTopics):
            identity = system.identity(bound.spec)
            if identity != topics.topics[stream_id]:
                what = "it was deleted" if identity is None else "it was deleted and made anew"
                raise other_topic(bound.spec.through or bound.spec.name, what)
        system.create([bound.spec])
        if isinstance(system, PublishesForGood) and not context.run.is_own(stream_id):
            run, handle = context.run, context.handle
            claim = output_claim(run, handle.stage_id, handle.generation, carries_state=run.keeps_state)
            system.claim(bound.spec, claim)
        if is_own and isinstance(system, IdentifiesTopics):
            own[stream_id] = system.identity(bound.spec)
    if topics is None:
        write_once(context.files, path, StageTopics(own))


def program_source(
    systems: Mapping[str, System], run: RunPlan, stage_id: str, inputs: Mapping[str, BoundStream]
) -> ProgramSource:
    """Return all from which a process makes the stage's program.

    Columns that the application does not declare come from the systems.
    """
    schemas = dict(run.schemas)
    for stream_id, bound in inputs.items():
        if run.is_own(stream_id):
            metadata = systems[bound.system].metadata([bound.spec])
            ddl = metadata[bound.spec.name].schema if bound.spec.name in metadata else None
            if ddl is not None:
                schemas[stream_id] = ddl
    return ProgramSource(run.reference, run.plan.to_json(), stage_id, schemas, dict(run.config), run.contents)


def bound_output(run: RunPlan, program: StageProgram, stream_id: str, generation: Generation) -> BoundStream:
    """Return an output of the stage, with the columns that reach it."""
    bound = output_stream(run, stream_id, generation)
    schema = program.streams.get(stream_id)
    return bound if schema is None else replace(bound, spec=replace(bound.spec, schema=schema.ddl()))


def bindings_of_tasks(bindings: Mapping[str, SystemBinding]) -> dict[str, SystemBinding]:
    """Return bindings without what tasks have no use for.

    Tasks never see a database, so no password of one leaves the driver.
    """
    return {
        name: SystemBinding(binding.kind) if traits_of(binding.kind).through_topics else binding
        for name, binding in bindings.items()
    }


def _processor_digests(program: StageProgram, reference: str, code: str) -> dict[str, str]:
    """Return the digests of a stage's tables with a processor, by table id; a processor without one is missing.

    While it is the same, rows that a host has kept may be read on (decision 55). ``code`` is the digest of the stage's
    callables, with what travels beside them; what a processor reads from elsewhere cannot be compared.
    """
    digests = {}
    for table in (program.spec.table(table_id) for table_id in program.stage.tables):
        if table.processor is not None:
            of_factory = CodeDigests(reference.partition(":")[0]).of(processor_factory(table))
            if of_factory is not None:
                digests[table.table_id] = _table_digest(program, table, of_factory + code)
    return digests


def _table_digest(program: StageProgram, table: TableDescriptor, code: str) -> str:
    streams = {}
    for stream_id in table.side_inputs:
        declared, columns = program.spec.side_inputs[stream_id], program.streams.get(stream_id)
        streams[stream_id] = [columns.ddl() if columns is not None else None, declared.key, declared.timestamp]
    facts = [table.table_id, code, sorted(program.spec.config.items()), streams]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
