"""Runs of other applications that write sections of shared streams, found by their records while they write.

A run that names one by its id finds that. ``APPLICATION@interval`` is the newest run of an application for the same
data interval and partition key, ``APPLICATION@latest`` the newest of all (decision 131). The plan step, the stage
runner and triggers wait by it for runs that still write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError, SectionOpen, StageError, UpstreamCleared
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.compared_runs import is_seen
from airflow_samza.runs.progress.run_list import newest_runs, origin_of, plan_of
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.names import Generation, producer_id
from airflow_samza.runs.records.run_plan import FOLLOWS, RunPlan
from airflow_samza.runs.stages.run_ends import is_aborted
from airflow_samza.runs.stages.stage_state import StageHandle, is_committed
from airflow_samza.systems.filesystems.filesystem import Filesystem

OF_INTERVAL, LATEST = "@interval", "@latest"


@dataclass(frozen=True)
class SectionWriter:
    """The run of another application that writes a section of a shared stream, and the stage that does."""

    application: str
    run_id: str
    stage: str

    @property
    def producer(self) -> str:
        """Its name as a producer."""
        return producer_id(self.application, self.run_id, self.stage)

    @property
    def run(self) -> str:
        """``<application>/<run>``, as sections name it."""
        return self.producer.rpartition("/")[0]

    @property
    def folder(self) -> RunFolder:
        """The records of its run."""
        return RunFolder(self.application, self.run_id)

    def text(self, files: Filesystem) -> str:
        """Return the run and its Dag as a part of a sentence."""
        dag_id = origin_of(files, self.application, self.run_id).dag_id
        of_dag = f" (Dag {dag_id!r})" if dag_id else ""
        return f"the run {self.run_id!r} of {self.application!r}{of_dag}"

    def newest(self, files: Filesystem) -> StageHandle | None:
        """Return the newest generation of its stage that was ever submitted, of whichever plan."""
        generations = self.folder.generations(files, self.stage)
        return StageHandle(self.application, self.run_id, self.stage, generations[-1]) if generations else None

    def reject_lost(
        self, files: Filesystem, bound: Generation | None, stream_id: str, stage_id: str, run_id: str
    ) -> None:
        """Reject a stage whose producer in this run will not write on, as that of a producer in its own run.

        ``bound`` is the generation that the stage reads; None: it has read none yet.
        """
        handle = self.newest(files)
        newest = handle.generation if handle is not None else None
        reading = bound if bound is not None else newest
        folder = self.folder.stage(self.stage, reading) if reading is not None else None
        if folder is not None and is_committed(files, folder):
            return
        reads = f"The stage {stage_id!r} reads of {stream_id!r} what {self.text(files)} writes"
        if (folder is not None and is_aborted(files, folder)) or files.exists(self.folder.closed):
            raise StageError(
                f"{reads}, and that run failed for good.",
                hint=f"Fix the failure there and clear it, then clear {stage_id!r} with its downstream.",
                stage=stage_id,
                run=run_id,
                upstream=self.run,
            )
        plans = self.folder.plan_generations(files)
        if newest is not None and bound is not None and (newest > bound or plans[-1] > bound.plan):
            raise UpstreamCleared(
                f"{reads}, and that run was cleared: generation {bound} was read, and it is written anew.",
                hint=f"Clear {stage_id!r} with its downstream: its next generation reads what the run writes now.",
                stage=stage_id,
                run=run_id,
                upstream=self.run,
                generation=str(newest),
            )


def followed(slice_: Mapping[str, Any] | None) -> SectionWriter | None:
    """Return the writer of the section of a slice that is read while it is written; None of any other slice."""
    described = (slice_ or {}).get(FOLLOWS)
    return SectionWriter(**described) if described else None


def find_writer(files: Filesystem, stream_id: str, topic: str, named: str, request: RunRequest) -> SectionWriter | None:
    """Return the run that is named, if it is planned and writes the topic.

    One that is named by its interval, or as the latest, and is not planned, is a :class:`SectionOpen`.
    """
    application, relative = _parts(named)
    if not relative:
        application, _, run_id = named.rpartition("/")
        plans = (plan_of(files, run) for run in newest_runs(files, application or None, run_id))
        return next((found for plan in plans if (found := _writer_in(plan, topic)) is not None), None)
    if relative == OF_INTERVAL and request.interval is None and request.partition_key is None:
        raise ConfigError(
            f"The section {named!r} of {stream_id!r} is that of a data interval, "
            f"and the run {request.run_id!r} has none.",
            hint=f"Name the run, or {application}{LATEST}; or give the run an interval.",
            key="sections",
            value=named,
            stream=stream_id,
        )
    interval = request.interval.iso() if request.interval is not None else None
    for run in newest_runs(files, application):
        plan = plan_of(files, run)
        same = (plan.interval and tuple(plan.interval)) == interval and plan.partition_key == request.partition_key
        found = _writer_in(plan, topic) if same or relative == LATEST else None
        if found is not None and is_seen(files, plan):
            return found
    raise _not_planned(files, stream_id, application, request if relative == OF_INTERVAL else None)


def names_a_slot(named: str) -> bool:
    """Return whether a run is named by its data interval, or as the latest."""
    return bool(_parts(named)[1])


def _parts(named: str) -> tuple[str, str]:
    for relative in (OF_INTERVAL, LATEST):
        if named.endswith(relative):
            return named.removesuffix(relative), relative
    return named, ""


def _writer_in(plan: RunPlan, topic: str) -> SectionWriter | None:
    for stage in plan.plan.stages:
        if any(not plan.is_own(name) and plan.stream(name).spec.name == topic for name in stage.outputs):
            return SectionWriter(plan.application, plan.run_id, stage.stage_id)
    return None


def _not_planned(files: Filesystem, stream_id: str, application: str, request: RunRequest | None) -> SectionOpen:
    of_what = ""
    if request is not None:
        texts = [f"the partition key {request.partition_key!r}"] if request.partition_key else []
        texts += [f"the data interval {request.interval}"] if request.interval is not None else []
        of_what = f" for {' and '.join(texts)}"
    close = did_you_mean(application, files.list("runs"))
    return SectionOpen(
        f"No run of {application!r}{of_what} that writes the shared stream {stream_id!r} is planned.",
        hint=f"{close}Start it; job.state.lease.wait.ms says how long a plan waits for it.",
        stream=stream_id,
        run=application,
    )
