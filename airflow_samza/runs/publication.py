"""The last step of write, audit, publish: what a run has written and nobody sees yet is published, or given up.

That is output which waits for an approval (:mod:`airflow_samza.runs.held_outputs`), and branches of tables
to which it has committed. The publish operator and the command line call it, through the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from airflow_samza.errors import StageError
from airflow_samza.runs.compared_runs import reject_unpromoted
from airflow_samza.runs.held_outputs import HeldOutput, discard_held, publish_held
from airflow_samza.runs.records.names import producer_id
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.stages.newest_stages import finished_result
from airflow_samza.runs.stages.stage_runners import reject_worked_on
from airflow_samza.runs.tables.lake_source import LAKES
from airflow_samza.systems.capabilities import OutputCommit, PublishesBranches
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.output_slots import run_of
from airflow_samza.systems.system import System


@dataclass(frozen=True)
class PublishedBranch:
    """Branch of a table; ``version`` is what readers of the table see now, None: there was nothing to publish.

    ``streams`` are the ids of the outputs to it. ``standing`` is the version with which it was published, now or by a
    former try; ``word`` is what versions of such tables are called.
    """

    table: str
    branch: str
    version: str | None
    streams: tuple[str, ...] = ()
    standing: str | None = None
    word: str = "snapshot"

    @property
    def told(self) -> dict[str, Any]:
        """The facts for programs."""
        return {"table": self.table, "branch": self.branch, "version": self.version}

    def __str__(self) -> str:
        if self.version is None:
            return f"The table {self.table} has nothing on the branch {self.branch!r} to be published."
        return f"The branch {self.branch!r} of the table {self.table} is published ({self.word} {self.version})."


@dataclass(frozen=True)
class DroppedBranch:
    """Branch of a table that a run has given up; ``was_there`` is False where there was none any more."""

    table: str
    branch: str
    was_there: bool

    @property
    def told(self) -> dict[str, Any]:
        """The facts for programs."""
        return asdict(self)

    def __str__(self) -> str:
        if not self.was_there:
            return f"The table {self.table} has no branch {self.branch!r}."
        return f"The branch {self.branch!r} of the table {self.table} is dropped; readers have seen nothing of it."


def publish_branches(files: Filesystem, systems: Mapping[str, System], run: RunPlan) -> list[PublishedBranch]:
    """Publish what a run has committed to branches, table by table; doing it again changes nothing.

    A run of which a stage has not succeeded, and one whose branch was dropped are rejected.
    """
    generations = finished_generations(files, run)
    published = []
    for place, one in _branches_of(systems, run).items():
        committed = [
            OutputCommit(producer_id(run.application, run.run_id, stage_id), bound.spec.name, generations[stage_id])
            for stage_id, bound in one.writers
        ]
        version = one.system.publish_branch(one.stream.spec, _name_of(run), committed)
        published.append(
            PublishedBranch(
                place.table,
                place.branch,
                version,
                tuple(dict.fromkeys(bound.stream_id for _, bound in one.writers)),
                version if version is not None else one.system.published_version(one.stream.spec, committed),
                LAKES.get(str(run.systems.get(place.system, {}).get("kind")), "version"),
            )
        )
    return published


def finished_generations(files: Filesystem, run: RunPlan) -> dict[str, str]:
    """Return the generations of the stages of a run, by stage; a run of which one has not succeeded is rejected."""
    generations: dict[str, str] = {}
    for stage in run.plan.stages:
        result = finished_result(files, run, stage.stage_id)
        if result is None:
            raise StageError(
                f"The run {run.run_id!r} of {run.application!r} cannot be published: "
                f"its stage {stage.stage_id!r} has not succeeded.",
                hint="Have the run finished, and publish it then.",
                run=run.run_id,
                stage=stage.stage_id,
            )
        generations[stage.stage_id] = result.generation
    return generations


def drop_branches(systems: Mapping[str, System], run: RunPlan) -> list[DroppedBranch]:
    """Drop the branches of a run that is given up."""
    return [
        DroppedBranch(place.table, place.branch, one.system.drop_branch(one.stream.spec, _name_of(run)))
        for place, one in _branches_of(systems, run).items()
    ]


class _Place(NamedTuple):
    system: str
    table: str
    branch: str


@dataclass
class _Written:
    """Branch with an output to it, and the outputs of all stages that write it, by the ids of these."""

    system: PublishesBranches
    stream: BoundStream
    writers: list[tuple[str, BoundStream]] = field(default_factory=list)


def _branches_of(systems: Mapping[str, System], run: RunPlan) -> dict[_Place, _Written]:
    """Return the branches to which a run commits."""
    branches: dict[_Place, _Written] = {}
    for stage, bound in run.written_outside():
        system = systems[bound.system]
        branch = system.branch(bound.spec) if isinstance(system, PublishesBranches) else None
        if branch is None or not isinstance(system, PublishesBranches):
            continue
        table = str((bound.slice or {}).get("table", bound.spec.name))
        written = branches.setdefault(_Place(bound.system, table, branch), _Written(system, bound))
        written.writers.append((stage.stage_id, bound))
    return branches


def _name_of(run: RunPlan) -> str:
    return run_of(producer_id(run.application, run.run_id, run.plan.stages[0].stage_id))


Published = HeldOutput | PublishedBranch
"""Output of a run that readers see since it was published."""

GivenUp = HeldOutput | DroppedBranch
"""Output of a run that readers never see."""


def publish_run(files: Filesystem, systems: Mapping[str, System], run: RunPlan, who: str) -> list[Published]:
    """Publish what a run keeps back, as ``who`` has approved it; doing it again changes nothing.

    A run of which a stage has not succeeded, one that keeps nothing back, and one that was given up are rejected.
    """
    finished_generations(files, run)
    reject_unpromoted(systems, run)
    held, branches = publish_held(files, systems, run, who), publish_branches(files, systems, run)
    _reject_visible(run, [*held, *branches])
    return [*held, *branches]


def give_up_run(files: Filesystem, systems: Mapping[str, System], run: RunPlan, who: str) -> list[GivenUp]:
    """Discard what a run keeps back, as ``who`` has rejected it; one that a stage runner works on is rejected."""
    reject_worked_on(files, run, "may write what is rejected")
    discarded, dropped = discard_held(files, systems, run, who), drop_branches(systems, run)
    _reject_visible(run, [*discarded, *dropped])
    return [*discarded, *dropped]


def _reject_visible(run: RunPlan, outputs: Sequence[Published | GivenUp]) -> None:
    """Reject a run that keeps nothing back."""
    if not outputs and run.approvals:
        raise StageError(
            f"No stage of the run {run.run_id!r} of {run.application!r} that writes an output which waits for approval "
            "has succeeded.",
            hint="There is nothing to reject: clear the run, or have it finished.",
            run=run.run_id,
        )
    if not outputs:
        raise StageError(
            f"The run {run.run_id!r} of {run.application!r} keeps no output back: all of it is visible.",
            hint='Set publish="after approval" on an output to publish it later, or branch="audit/{run_id}" on one to '
            "a table of kind iceberg or delta.",
            run=run.run_id,
        )
