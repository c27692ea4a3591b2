"""What becomes of the topics of a run that is over: they are marked to expire, and the log's upkeep deletes them after that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_samza.runs.finish import output_stream
from airflow_samza.runs.folders import RunFolder
from airflow_samza.runs.names import Generation
from airflow_samza.runs.run_plan import BoundStream, RunPlan
from airflow_samza.systems.filesystem import Filesystem
from airflow_samza.systems.log_maintenance import mark_expired
from airflow_samza.systems.log_system import LogSystem
from airflow_samza.systems.spark_system import SparkSystem
from airflow_samza.systems.system import System

KEEP_AFTER_SUCCESS_SECONDS = 24 * 3600.0
KEEP_AFTER_FAILURE_SECONDS = 7 * 24 * 3600.0


def expire_topics(files: Filesystem, systems: Mapping[str, System], run: RunPlan, at: float) -> list[str]:
    """Marks the run's own topics, of every generation of its stages, to expire at a time (seconds since 1970); returns their names."""
    folder = RunFolder(run.application, run.run_id)
    marked = []
    first = Generation(run.generation, 1)
    for stream in (run.stream(stream_id) for stage in run.plan.stages for stream_id in stage.inputs):
        read = run.through(stream, first)
        if read.spec.through is not None and _expire(systems, read, at):
            marked.append(read.spec.through)
    for stage in run.plan.stages:
        known = {Generation(run.generation, 1), *folder.generations(files, stage.stage_id)}
        for generation in sorted(generation for generation in known if generation.plan == run.generation):
            for stream_id in stage.outputs:
                topic = output_stream(run, stream_id, generation)
                own = run.is_own(stream_id) or topic.spec.through is not None
                if own and _expire(systems, topic, at):
                    marked.append(topic.spec.through or topic.spec.name)
    return marked


def _expire(systems: Mapping[str, System], topic: BoundStream, at: float) -> bool:
    """Marks one topic to expire; False when it is not there, or its system looks after itself."""
    system = systems[topic.system]
    log = system.log if isinstance(system, SparkSystem) else system
    name = topic.spec.through if isinstance(system, SparkSystem) else topic.spec.name
    if name is None or not isinstance(log, LogSystem) or not log.admin.metadata([replace(topic.spec, name=name)]):
        return False
    mark_expired(log.topic(name), int(at * 1000))
    return True
