"""Output that waits for an approval (``publish="after approval"``): the decision about it (decision 126).

A stage with such output ends as any other: its commit fixes what was written, and only the publication is left out. A
*decision* beside its result, written once, says whether that follows or never comes. So of two people who decide
differently the first one counts, and a process that dies between decision and publication is followed by one that
publishes. A stage that is cleared has another generation, which waits anew; nobody publishes the former one. The
publish operator and the command line decide; status, retention and sweeps ask.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from airflow_samza.errors import StageError
from airflow_samza.records import durable
from airflow_samza.runs.expectations import note_published
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.finish import output_stream, publish_epoch
from airflow_samza.runs.records.epoch_records import Commit, Intent, read_manifests
from airflow_samza.runs.records.folders import (
    StageFolder,
    adopt,
    must_read,
    numbers,
    read_fixed,
    run_folders,
)
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan, newest_plan
from airflow_samza.runs.records.stage_result import VERSIONS, OutputResult, StageResult
from airflow_samza.runs.stages.newest_stages import finished_result
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.capabilities import DiscardsStaged
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.output_slots import MODE, UPSERT
from airflow_samza.systems.system import System

WAITING_SECONDS = 6 * 86400.0
"""Output waits so long for a decision: systems keep for seven days what is staged, and the stage took a while."""

WAITS, APPROVED, PUBLISHED, DISCARDED, EXPIRED = "waits", "approved", "published", "discarded", "expired"
"""The states of output that waits. ``approved``: its publication has not come to its end yet."""


@durable("decision about held output")
@dataclass(frozen=True)
class Decision:
    """The decision about the outputs of a stage that wait: by whom, and when (seconds since 1970)."""

    approved: bool
    who: str
    at: float


@durable("publication of held output")
@dataclass(frozen=True)
class HeldPublication:
    """The note that approved outputs are published: what the systems told, by stream, and when."""

    facts: Mapping[str, Mapping[str, Any]]
    at: float


@dataclass(frozen=True)
class HeldOutput:
    """One output of a stage that waits, or did: ``messages`` of it, and its state.

    ``until`` is when it expires (seconds since 1970), ``who`` has decided ("": nobody has), and ``facts`` are what the
    system told on publishing.
    """

    stage_id: str
    generation: str
    stream_id: str
    place: str
    messages: int
    state: str
    until: float
    who: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def streams(self) -> tuple[str, ...]:
        """The id of the output."""
        return (self.stream_id,)

    @property
    def is_open(self) -> bool:
        """Return whether it is still to be published or discarded."""
        return self.state in (WAITS, APPROVED)

    @property
    def told(self) -> dict[str, Any]:
        """The facts for programs."""
        return {
            "stage": self.stage_id,
            "generation": self.generation,
            "stream": self.stream_id,
            "rows": self.messages,
            "state": self.state,
            "who": self.who,
        }

    def __str__(self) -> str:
        rows = f"{self.messages:,} {'message' if self.messages == 1 else 'messages'}"
        by = f" by {self.who}" if self.who else ""
        said = {
            WAITS: f"waits for approval until {_utc(self.until)}; readers see nothing of it",
            APPROVED: f"was approved{by}, and is not published to its end; publish it again",
            PUBLISHED: f"was approved{by}, and is published",
            DISCARDED: f"was rejected{by}, and is discarded; readers have seen nothing of it",
            EXPIRED: f"has waited for approval until {_utc(self.until)}, and has expired",
        }[self.state]
        return f"The output {self.stream_id!r} ({rows} for {self.place}) {said}."


def held_outputs(files: Filesystem, run: RunPlan, now: float | None = None) -> list[HeldOutput]:
    """Return the outputs of a run's finished stages that wait for an approval, or did."""
    return [one for _, outputs in _stages(files, run, time.time() if now is None else now) for one in outputs]


def has_open_outputs(files: Filesystem, run: RunPlan, now: float | None = None) -> bool:
    """Return whether an output of a run still waits, so that what it has staged is needed."""
    return bool(run.approvals) and any(one.is_open for one in held_outputs(files, run, now))


def publish_held(files: Filesystem, systems: Mapping[str, System], run: RunPlan, who: str) -> list[HeldOutput]:
    """Approve the outputs of a run that wait, and publish them; again, it changes nothing more.

    Raises:
        StageError: one has expired, somebody has rejected it, or older changes of its rows still wait.
    """
    stages = list(_stages(files, run, time.time()))
    _reject_before_older(files, run, [one for _, outputs in stages for one in outputs if one.state == WAITS])
    for _, outputs in stages:
        for one in outputs:
            _reject_over(run, one)
    for handle, outputs in stages:
        decision = adopt(files, handle.folder.decision, Decision(True, who, time.time()))
        if not decision.approved:
            _reject_over(run, replace(outputs[0], state=DISCARDED, who=decision.who))
    reach("held-after-decision")
    return [one for handle, outputs in stages for one in _published(files, systems, run, handle, outputs)]


def discard_held(files: Filesystem, systems: Mapping[str, System], run: RunPlan, who: str) -> list[HeldOutput]:
    """Reject the outputs of a run that wait, and delete what is staged of them; again, it changes nothing more.

    Raises:
        StageError: somebody has approved one.
    """
    discarded = []
    for handle, outputs in _stages(files, run, time.time()):
        decision = adopt(files, handle.folder.decision, Decision(False, who, time.time()))
        if decision.approved:
            raise StageError(
                f"The output {outputs[0].stream_id!r} of the run {run.run_id!r} cannot be rejected: {decision.who} has "
                "approved it.",
                hint="Clear the stage to write it anew: its next output waits for an approval again.",
                run=run.run_id,
                stage=handle.stage_id,
            )
        reach("held-after-decision")
        for intent, _ in committed_epochs(files, handle.folder):
            for manifest in read_manifests(files, handle.folder, intent):
                for one in outputs:
                    bound = output_stream(run, one.stream_id, handle.generation)
                    system = systems[bound.system]
                    if one.stream_id in manifest.staged and isinstance(system, DiscardsStaged):
                        system.discard(bound.spec, manifest.staged[one.stream_id].described)
        discarded += [replace(one, state=DISCARDED, who=decision.who) for one in outputs]
    return discarded


def _stages(files: Filesystem, run: RunPlan, now: float) -> Iterator[tuple[StageHandle, list[HeldOutput]]]:
    """Yield the finished stages of a run that have held outputs, with these."""
    for stage in run.plan.stages:
        result = finished_result(files, run, stage.stage_id) if run.held(stage.stage_id) else None
        held = [output for output in result.outputs if output.held] if result is not None else []
        if result is None or not held:
            continue
        # A stage whose result the plan keeps has the output of a former generation.
        one = StageHandle(run.application, run.run_id, stage.stage_id, Generation.parse(result.generation))
        yield one, [_held(files, one, output, now) for output in held]


def _held(files: Filesystem, stage: StageHandle, output: OutputResult, now: float) -> HeldOutput:
    decision = read_fixed(files, stage.folder.decision, Decision)
    publication = read_fixed(files, stage.folder.published, HeldPublication)
    until = must_read(files, stage.folder.intent(0), Intent).decided_at + WAITING_SECONDS
    if publication is not None:
        state = PUBLISHED
    elif decision is not None:
        state = APPROVED if decision.approved else DISCARDED
    else:
        state = WAITS if now < until else EXPIRED
    return HeldOutput(
        stage.stage_id,
        str(stage.generation),
        output.stream_id,
        f"{output.system}.{output.stream}",
        output.messages,
        state,
        until,
        decision.who if decision is not None else "",
        publication.facts.get(output.stream_id, {}) if publication is not None else {},
    )


def _published(
    files: Filesystem, systems: Mapping[str, System], run: RunPlan, stage: StageHandle, outputs: list[HeldOutput]
) -> Iterator[HeldOutput]:
    """Publish the outputs of a stage whose decision stands; yield them."""
    folder, decision = stage.folder, must_read(files, stage.folder.decision, Decision)
    publication = read_fixed(files, folder.published, HeldPublication)
    if publication is None:
        facts: dict[str, Mapping[str, Any]] = {}
        epochs = list(committed_epochs(files, folder))
        for intent, committed in epochs:
            manifests = read_manifests(files, folder, intent)
            names = [one.stream_id for one in outputs]
            facts.update(publish_epoch(files, systems, run, stage.generation, intent, manifests, committed, names))
        if len(epochs) > 1:  # only the last one's numbers were told, and would be taken for the stage's
            facts = {
                name: {key: value for key, value in said.items() if isinstance(value, str) or key in VERSIONS}
                for name, said in facts.items()
            }
        result = must_read(files, folder.result, StageResult)
        note_published(files, run, (output for output in result.outputs if output.held))
        reach("held-before-note")
        publication = adopt(files, folder.published, HeldPublication(facts, time.time()))
    for one in outputs:
        yield replace(one, state=PUBLISHED, who=decision.who, facts=publication.facts.get(one.stream_id, {}))


def committed_epochs(files: Filesystem, folder: StageFolder) -> Iterator[tuple[Intent, Commit]]:
    """Yield the epochs of a stage that has ended, in order."""
    for epoch in numbers(files, folder.epochs):
        committed = read_fixed(files, folder.commit(epoch), Commit)
        if committed is not None:
            yield must_read(files, folder.intent(epoch), Intent), committed


def _reject_over(run: RunPlan, one: HeldOutput) -> None:
    """Reject output that nobody can publish any more."""
    if one.state in (DISCARDED, EXPIRED):
        why = f"{one.who} has rejected it" if one.state == DISCARDED else f"it has waited until {_utc(one.until)}"
        raise StageError(
            f"The output {one.stream_id!r} of the run {run.run_id!r} cannot be published: {why}.",
            hint="Clear the stage to write its output anew, and approve that.",
            run=run.run_id,
            stage=one.stage_id,
        )


def _reject_before_older(files: Filesystem, run: RunPlan, outputs: list[HeldOutput]) -> None:
    """Reject to upsert rows while changes wait of a run from whose state this one has gone on.

    Those are older, and published later they would replace newer rows.
    """
    upserted = {one.stream_id for one in outputs if (MODE, UPSERT) in run.stream(one.stream_id).spec.options}
    if run.state is None or run.state.source is not None or not upserted:
        return
    for folder in run_folders(files, run.application):
        other = newest_plan(files, folder)
        if other is None or other.state is None or other.state.source is not None or other.app_id != run.app_id:
            continue
        if other.state.version >= run.state.version or not other.approvals:
            continue
        for one in held_outputs(files, other):
            if one.is_open and one.stream_id in upserted:
                raise StageError(
                    f"The output {one.stream_id!r} of the run {run.run_id!r} cannot be published yet: older changes of "
                    f"the run {other.run_id!r} still wait, and would replace its rows later.",
                    hint=f"Publish or reject those first: airflow-samza publish {run.application} {other.run_id}.",
                    run=run.run_id,
                    stage=one.stage_id,
                )


def _utc(at: float) -> str:
    return f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%d %H:%M} UTC"
