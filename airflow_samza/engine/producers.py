"""The writers of what a stage reads: which generation of each it is bound to, and whether that one still writes.

A stage binds once, and its first intent records it. In a staged run its producers have finished; in a pipelined or
continuous run it is enough that they have started. The writer of a shared stream's section that is followed is a stage
of another run, and is treated alike (rule C10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_samza.errors import StageError, UpstreamCleared
from airflow_samza.prepare.shared_sections import followed
from airflow_samza.runs.finish import finish_stage
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.stages.newest_stages import newest_submitted
from airflow_samza.runs.stages.run_ends import is_aborted
from airflow_samza.runs.stages.stage_state import StageHandle, is_committed, written_by
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System


class Producers:
    """The producers of one stage's inputs: stages of the run, and of runs whose sections it follows.

    ``intent`` is one that stands already: it is followed.
    """

    def __init__(
        self, files: Filesystem, systems: Mapping[str, System], run: RunPlan, handle: StageHandle, intent: Intent | None
    ) -> None:
        self._files = files
        self._systems = systems
        self._run = run
        self._handle = handle
        self._own = [stream_id for stream_id in run.plan.stage(handle.stage_id).inputs if run.is_own(stream_id)]
        self._others = {
            stream_id: writer
            for stream_id in run.plan.stage(handle.stage_id).inputs
            if stream_id not in self._own and (writer := followed(run.stream(stream_id).slice)) is not None
        }
        """The stages of other runs whose sections are followed."""
        self._bound: dict[str, Generation] = {}
        for stream_id in (*self._own, *self._others):
            bound_to = intent.inputs[stream_id].writer if intent is not None else None
            if bound_to is not None:
                self._bound[stream_id] = Generation.parse(bound_to)
            elif stream_id in self._own and run.writer_stage(stream_id) == handle.stage_id:
                self._bound[stream_id] = handle.generation  # it reads what it writes itself

    def bind(self) -> str | None:
        """Bind to what can be bound to by now; return the stage that has to start before the rest can be, if any."""
        for stream_id in self._own:
            if stream_id in self._bound:
                continue
            if self._run.stages_run_concurrently:
                writer = self._run.writer_stage(stream_id)
                started = newest_submitted(self._files, self._run, writer)
                if started is None or not self._is_there(stream_id, started):
                    return writer
                self._bound[stream_id] = written_by(self._files, started)
            else:
                self._bound[stream_id] = self._finished(stream_id)
        for stream_id, other in self._others.items():
            if stream_id not in self._bound:
                begun = other.newest(self._files)
                if begun is None:
                    return f"{other.run}/{other.stage}"
                self._bound[stream_id] = written_by(self._files, begun)
        return None

    def streams(self) -> dict[str, BoundStream]:
        """Return the topics that the stage reads, each as its producer's generation writes it."""
        own = {stream_id: self._run.intermediate(stream_id, self._bound[stream_id]) for stream_id in self._own}
        return {**own, **{stream_id: self._followed(stream_id) for stream_id in self._others}}

    def _followed(self, stream_id: str) -> BoundStream:
        bound = self._run.stream(stream_id)
        slice_: dict[str, Any] = dict(bound.slice or {})
        slice_["sections"] = [{**slice_["sections"][0], "generation": str(self._bound[stream_id])}]
        return replace(bound, slice=slice_)

    def have_finished(self) -> bool:
        """Return whether all of them have committed everything that they will ever write."""
        stages = {self._run.writer_stage(stream_id): self._bound[stream_id] for stream_id in self._own}
        stages.pop(self._handle.stage_id, None)
        folders = [self._run.folder.stage(stage_id, generation) for stage_id, generation in stages.items()]
        folders += [other.folder.stage(other.stage, self._bound[name]) for name, other in self._others.items()]
        return all(self._files.exists(folder.result) for folder in folders)

    def reject_lost(self) -> None:
        """Stop a stage whose producer will not write on: it was given up, or a newer generation writes elsewhere."""
        for stream_id, other in self._others.items():
            other.reject_lost(
                self._files, self._bound.get(stream_id), stream_id, self._handle.stage_id, self._run.run_id
            )
        for stream_id in self._own:
            stage_id = self._run.writer_stage(stream_id)
            if stage_id == self._handle.stage_id:
                continue
            handle = newest_submitted(self._files, self._run, stage_id)
            if handle is None:
                continue
            newest = handle.generation
            bound = self._bound.get(stream_id, newest)
            if is_aborted(self._files, self._run.folder.stage(stage_id, bound)):
                raise StageError(
                    f"The stage {self._handle.stage_id!r} reads what {stage_id!r} writes, and that stage "
                    "failed for good.",
                    hint="Clear it with its upstream, when what failed there is fixed.",
                    stage=self._handle.stage_id,
                    run=self._run.run_id,
                    upstream=stage_id,
                )
            if newest > bound and not is_committed(self._files, self._run.folder.stage(stage_id, bound)):
                raise UpstreamCleared(
                    f"The stage {self._handle.stage_id!r} reads generation {bound} of {stage_id!r}, and {newest} has "
                    "taken over.",
                    hint=f"Clear {self._handle.stage_id!r} with its upstream: its next generation reads the newer "
                    "one's output.",
                    stage=self._handle.stage_id,
                    run=self._run.run_id,
                    upstream=stage_id,
                    generation=str(newest),
                )

    def _is_there(self, stream_id: str, writer: StageHandle) -> bool:
        bound = self._run.intermediate(stream_id, written_by(self._files, writer))
        return bool(self._systems[bound.system].metadata([bound.spec]))

    def _finished(self, stream_id: str) -> Generation:
        """Return the newest finished generation of the stage that writes a topic, of this plan."""
        writer, run = self._run.writer_stage(stream_id), self._run
        for generation in reversed(run.generations(self._files, writer)):
            stage = run.folder.stage(writer, generation)
            if is_committed(self._files, stage):
                # Committed and not yet published: rolled forward here.
                result = finish_stage(self._files, self._systems, run, writer, generation, stage)
                return Generation.parse(result.generation)
        raise StageError(
            f"The stage {self._handle.stage_id!r} reads {stream_id!r}, which the stage {writer!r} has not finished in "
            "this run.",
            hint=f"Run {writer!r} first: clear {self._handle.stage_id!r} with its upstream.",
            stage=self._handle.stage_id,
            upstream=writer,
            run=run.run_id,
        )
