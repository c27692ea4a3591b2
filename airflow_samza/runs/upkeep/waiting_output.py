"""Output that a run has committed, and of which not all is published: its runner died, and nobody tried again.

The commit has decided that it is published. A retry does that; where none comes, whoever looks after a root finds it
here, and has it published. The commands ``fsck``, ``status`` and ``runs`` and the page name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from airflow_samza.errors import SamzaError, StageLost
from airflow_samza.runs.finish import finish_stage, output_stream
from airflow_samza.runs.records.epoch_records import newest_intent, read_commit, read_manifests
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.state_history.state_at_end import reject_fenced
from airflow_samza.systems.capabilities import PublishesForGood
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec, System


@dataclass(frozen=True)
class WaitingOutput:
    """Messages of an epoch of a stage that are committed and wait for their publication to the topic ``stream``."""

    stage_id: str
    generation: str
    epoch: int
    stream: str
    messages: int

    def __str__(self) -> str:
        return (
            f"{self.messages:,} messages for {self.stream!r} of the stage {self.stage_id} (generation "
            f"{self.generation}, epoch {self.epoch})"
        )


def waiting_output(files: Filesystem, systems: Mapping[str, System], run: RunPlan) -> list[WaitingOutput]:
    """Return what waits of the stages under a plan, in generations whose turn it is."""
    if not any(isinstance(system, PublishesForGood) for system in systems.values()):
        return []  # and no file of the run is looked at
    try:
        reject_fenced(files, run)
    except SamzaError:  # another run has gone on from the state, and writes what this one would have written
        return []
    return [output for stage in run.plan.stages for output in _of_stage(files, systems, run, stage.stage_id)]


def publish_waiting(files: Filesystem, systems: Mapping[str, System], run: RunPlan) -> list[WaitingOutput]:
    """Publish what waits, end stages that had nothing else left to do, and return what waited."""
    outputs = waiting_output(files, systems, run)
    for stage_id, number in dict.fromkeys((waiting.stage_id, waiting.generation) for waiting in outputs):
        generation = Generation.parse(number)
        with suppress(StageLost):  # its open epoch is published now, and it is not over
            finish_stage(files, systems, run, stage_id, generation, run.folder.stage(stage_id, generation))
    return outputs


def _of_stage(files: Filesystem, systems: Mapping[str, System], run: RunPlan, stage_id: str) -> Iterator[WaitingOutput]:
    for generation in reversed(run.generations(files, stage_id)):
        outputs = dict(_staged(systems, run, stage_id, generation))
        stage = run.folder.stage(stage_id, generation)
        intent = newest_intent(files, stage) if outputs and not files.exists(stage.result) else None
        if intent is not None and read_commit(files, stage, intent.epoch) is not None:
            manifests = read_manifests(files, stage, intent)
            for stream_id, (staging, spec) in outputs.items():
                staged = [task.staged[stream_id].described for task in manifests if stream_id in task.staged]
                messages = staging.waiting(spec, staged)
                if messages:
                    yield WaitingOutput(stage_id, str(generation), intent.epoch, spec.name, messages)
        if any(staging.has_begun(spec) for staging, spec in outputs.values()):
            return  # lower ones publish no more


def _staged(
    systems: Mapping[str, System], run: RunPlan, stage_id: str, generation: Generation
) -> Iterator[tuple[str, tuple[PublishesForGood, StreamSpec]]]:
    for stream_id in run.plan.stage(stage_id).outputs:
        bound = output_stream(run, stream_id, generation)
        if stream_id not in run.approvals and bound.system in systems and bound.spec.through is not None:
            system = systems[bound.system]
            if isinstance(system, PublishesForGood):
                yield stream_id, (system, bound.spec)
