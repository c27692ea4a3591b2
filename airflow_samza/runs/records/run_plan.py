"""The RunPlan: what one run of an application will do, fixed by its ``plan`` task and read by every stage.

It holds the ExecutionPlan, every stream as its system sees it, and the slice of every input, so that a retry or a clear
reads exactly what the first attempt read. It holds no secrets and no path of the machine that made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from airflow_samza.planner.plan import ExecutionPlan, Stage
from airflow_samza.records import durable
from airflow_samza.runs.records.folders import RunFolder, read_report
from airflow_samza.runs.records.names import KEPT_RESULTS, NAMES, Generation, intermediate_topic, producer_id
from airflow_samza.runs.records.state_meaning import StateMeaning
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.output_slots import OutputSlot, appends
from airflow_samza.systems.system import StreamSpec, System

C = TypeVar("C")


@dataclass(frozen=True)
class TopicContent:
    """The content of one topic instead of whole messages.

    ``columns`` are those that a later operator reads, and the key; None: all. ``combined_for`` is the id of the
    aggregation whose partial results go through instead of messages; ``schema`` (DDL) is then the schema of the
    messages.
    """

    columns: tuple[str, ...] | None = None
    combined_for: str | None = None
    schema: str | None = None


CARRIED = "lineage"
"""The run carries the application's state on (a run record's word): it holds the lease, and leaves the next version."""

OWN = "own"
"""The run has a state of its own (a backfill), fresh or from what another run left; the history stays as it is."""


@dataclass(frozen=True)
class RunState:
    """The origin and destination of a run's state. ``version`` is the one that it starts from; 0: nothing yet.

    ``source`` is the run that left that version, where the run was told to start from one. ``fence`` is the number of
    the lease. ``starts`` are paths of records, by stage: what each of its tasks goes on from; a stage without one
    starts empty. ``keep``: how many versions are kept when this run leaves one.
    """

    kind: str = CARRIED
    version: int = 0
    source: str | None = None
    fence: int | None = None
    starts: Mapping[str, str] = field(default_factory=dict)
    keep: int = 5


STAGED, PIPELINED, CONTINUOUS = "staged", "pipelined", "continuous"
"""The modes of a run."""

FOLLOWS = "follows"
"""Under what the slice of a section names its writer, where that was still writing when the run was planned."""

SIDE_INPUT = "side_input"
"""The role of a stream that feeds tables."""


@dataclass(frozen=True)
class BoundStream:
    """A stream of the plan in this run: its system, the stream as the system sees it, and the slice that is read.

    The name of an intermediate stream is completed with its writer's generation: :meth:`RunPlan.intermediate`.
    """

    stream_id: str
    role: str
    system: str
    spec: StreamSpec
    slice: Mapping[str, Any] | None = None

    @property
    def is_own(self) -> bool:
        """Return whether it is one of the run's own topics."""
        return self.role == "intermediate"


@dataclass(frozen=True)
class StageReuse:
    """The generation of a stage whose result a plan keeps ("": the stage runs), and why."""

    kept: str
    why: str

    @property
    def text(self) -> str:
        """The decision in words."""
        return f"kept from generation {self.kept}: {self.why}" if self.kept else f"runs: {self.why}"


def other_code(bundle: Mapping[str, str], before: Mapping[str, str]) -> str:
    """Return the sentence by which the code of a Dag bundle is another than before; "" where it is not, or unknown."""
    now, then = bundle.get("version", ""), before.get("version", "")
    if not now or not then or now == then:
        return ""
    return (
        f"The code is another than that by which the run was planned: version {now} of the Dag bundle "
        f"{bundle.get('name', '')!r}, and then it was {then}."
    )


def side_input_key(stream_id: str) -> str:
    """Return the key in ``RunPlan.streams`` of a side input whose stream the run reads as an input, too.

    No stream id has an ``@``.
    """
    return f"{stream_id}@side-input"


Note = tuple[str, str, str]
"""A note for people in a plan: the stage, the stream that it reads or writes, and the text."""


@durable(
    "run plan",
    later={
        "names": 1,
        "meanings": {},
        "options": {},
        "requests": {},
        "declared": {},
        "fingerprints": {},
        "reuse": {},
        "slot": None,
        "root": "",
        "nodes": {},
        "approvals": (),
        "bundle": {},
    },
)
@dataclass(frozen=True)
class RunPlan:
    """One generation of a run's plan.

    ``streams`` are by stream id; an input that feeds a table as well is there twice, as the latter under
    :func:`side_input_key`. ``reference`` loads the application (``module:attribute``), ``interval`` is the data
    interval (ISO texts, UTC) where the run has one, ``systems`` each bound system's kind and the options that the
    application's code declares, ``engines`` per stage each operator's engine and the reason, ``schemas`` (DDL) the
    columns of inputs as their systems told them, ``contents`` what goes through the run's own topics where that is less
    than whole messages, and ``notes`` per stage and stream what a stage reads or sends of it, for people. ``state`` is
    there for runs that carry state from run to run. ``mode`` is how the stages run: one after the other (``staged``,
    also when one task runs them all), at the same time until their inputs end (``pipelined``), or so without an end
    (``continuous``). ``tables`` are the versions of pushed tables that are read (``PinnedTable`` as JSON, by table id).
    ``meanings`` tell, by key, what the state means that the run leaves. ``names`` is the way in which the run's own
    topics are named (:data:`~airflow_samza.runs.records.names.NAMES`): a run keeps the names with which it began.
    ``options`` are those with which the run was planned (``RunRequest.options``), with the sections and versions that
    it reads. ``requests`` are those of the process that planned, by kind, to a root that charges for them.
    ``declared`` is what the application's code declared (:mod:`airflow_samza.planner.declaration`): what runs is that.
    ``fingerprints`` are, by stage, digests of all that its result follows from, by what they are of; ``reuse`` says
    which stages keep the result of a former plan of the run. ``slot`` is what the run writes of each output; None: of
    its own, which no other run replaces (rule O1). ``root`` is the identity of its root, where an output keeps it.
    ``nodes`` are notes for people on operators, streams and tables (:mod:`airflow_samza.planner.node_notes`).
    ``approvals`` are the outputs that are published when somebody has approved them.
    ``bundle`` is the version of the Dag bundle whose code planned the run: ``name``, ``version``, and ``before``, the
    version by which it was planned before.
    """

    application: str
    app_id: str
    reference: str
    run_id: str
    generation: int
    plan: ExecutionPlan
    streams: Mapping[str, BoundStream]
    config: Mapping[str, str] = field(default_factory=dict)
    systems: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    interval: tuple[str, str] | None = None
    engines: Mapping[str, Mapping[str, tuple[str, str]]] = field(default_factory=dict)
    schemas: Mapping[str, str] = field(default_factory=dict)
    contents: Mapping[str, TopicContent] = field(default_factory=dict)
    notes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    state: RunState | None = None
    mode: str = STAGED
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    meanings: Mapping[str, StateMeaning] = field(default_factory=dict)
    names: int = NAMES
    options: Mapping[str, Any] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)
    declared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    fingerprints: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reuse: Mapping[str, StageReuse] = field(default_factory=dict)
    slot: OutputSlot | None = None
    root: str = ""
    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    approvals: tuple[str, ...] = ()
    bundle: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> RunFolder:
        """The records of the run."""
        return RunFolder(self.application, self.run_id)

    @property
    def partition_key(self) -> str | None:
        """The partition key with which the run was planned."""
        key = self.options.get("partition_key")
        return str(key) if key else None

    @property
    def compares(self) -> tuple[str, str] | None:
        """The application and the run with which this run is compared; None: with none."""
        application, _, run_id = str(self.options.get("compares") or "").partition("/")
        return (application, run_id) if run_id else None

    def stream(self, stream_id: str) -> BoundStream:
        """A stream of this run."""
        self.plan.stream(stream_id)
        return self.streams[stream_id]

    def written_outside(self) -> Iterator[tuple[Stage, BoundStream]]:
        """Yield what stages write that are not the run's own topics, each with its stage."""
        for stage in self.plan.stages:
            for stream_id in stage.outputs:
                if not self.is_own(stream_id):
                    yield stage, self.stream(stream_id)

    def outside(
        self, stream_ids: Iterable[str], systems: Mapping[str, System], capability: type[C]
    ) -> Iterator[tuple[BoundStream, C]]:
        """Yield the streams that are not the run's own and whose systems have a capability, each with its system."""
        for stream_id in stream_ids:
            bound = self.stream(stream_id)
            system = systems[bound.system]
            if not self.is_own(stream_id) and isinstance(system, capability):
                yield bound, system

    def side_input(self, stream_id: str) -> BoundStream:
        """A stream as it feeds the tables of this run."""
        bound = self.streams.get(side_input_key(stream_id))
        return bound if bound is not None else self.stream(stream_id)

    @property
    def engine_texts(self) -> dict[str, str]:
        """The engine of each operator, and why, by operator id: ``"arrow: works on whole batches"``."""
        return {
            op: f"{engine}: {why}" if why else engine
            for engines in self.engines.values()
            for op, (engine, why) in engines.items()
        }

    @property
    def reuse_texts(self) -> dict[str, str]:
        """The decision about each stage of a run that is planned anew, by stage id: whether it is kept, and why."""
        return {stage_id: decided.text for stage_id, decided in self.reuse.items()}

    def intermediate(self, stream_id: str, writer: Generation) -> BoundStream:
        """A run's own topic as the given generation of its writer writes it."""
        bound = self.stream(stream_id)
        return replace(
            bound, spec=replace(bound.spec, name=self._own_topic(stream_id, writer), owner=self._owner(stream_id))
        )

    def through(self, bound: BoundStream, generation: Generation) -> BoundStream:
        """A stream with the topic of the run that it goes through, where it does.

        Tasks cannot reach the place itself (kind ``spark``), or what they write waits for the commit (kind ``kafka``).
        """
        traits = traits_of(self.systems.get(bound.system, {}).get("kind"))
        if not (traits.through_topics or (traits.stages_outputs and bound.spec.written)):
            return bound
        name = self._own_topic(bound.stream_id, generation)
        return replace(bound, spec=replace(bound.spec, through=name, owner=self._owner(bound.stream_id)))

    def _own_topic(self, stream_id: str, generation: Generation) -> str:
        return intermediate_topic(self.application, self.app_id, stream_id, self.run_id, generation, self.names)

    def _owner(self, stream_id: str) -> tuple[str, ...]:
        return self.application, self.app_id, stream_id, self.run_id

    def is_own(self, stream_id: str) -> bool:
        """Return whether the stream is one of the run's own topics."""
        return self.plan.stream(stream_id).role == "intermediate"

    def slot_of(self, stream_id: str) -> OutputSlot | None:
        """Return the slot of an output that the run writes; None where it adds to what is there."""
        return None if self.is_own(stream_id) or appends(self.stream(stream_id).spec.options) else self.slot

    def root_of(self, stream_id: str) -> str:
        """Return the identity of the root; of a plan of a former version that which is fixed of a table, else "".

        Nobody else writes the run's own topics.
        """
        if self.is_own(stream_id):
            return ""
        return self.root or str((self.stream(stream_id).slice or {}).get("run", "")).partition("/")[0]

    def held(self, stage_id: str) -> tuple[str, ...]:
        """Return the outputs of a stage that wait for an approval when it has ended."""
        return tuple(name for name in self.plan.stage(stage_id).outputs if name in self.approvals)

    def unit(self, stream_id: str) -> str:
        """Return the unit of what goes through a stream, for people: ``messages`` or ``partial results``."""
        content = self.contents.get(stream_id)
        return "messages" if content is None or content.combined_for is None else "partial results"

    @property
    def stages_run_concurrently(self) -> bool:
        """Return whether its stages run at the same time, and wait for what their producers are still writing."""
        return self.mode in (PIPELINED, CONTINUOUS)

    def runs_epochs(self, stage_id: str) -> bool:
        """Return whether a stage runs epoch after epoch until all its tasks have ended, instead of one epoch."""
        return self.stages_run_concurrently or self.keeps_state or self.plan.stage(stage_id).several_epochs

    @property
    def keeps_state(self) -> bool:
        """Return whether another run goes on from what this one leaves: then tasks keep their state to the end."""
        return self.state is not None

    def start_of(self, stage_id: str) -> str | None:
        """The path of the record that says what a stage's tasks start from (``Intent.start``); None: from nothing."""
        return self.state.starts.get(stage_id) if self.state is not None else None

    def kept_generation(self, stage_id: str) -> Generation | None:
        """Return the generation of a stage whose result the plan keeps; None where the stage runs."""
        decided = self.reuse.get(stage_id)
        return Generation.parse(decided.kept) if decided is not None and decided.kept else None

    def generations(self, files: Filesystem, stage_id: str) -> list[Generation]:
        """Return the generations of a stage that were submitted under this plan, oldest first."""
        return [one for one in self.folder.generations(files, stage_id) if one.plan == self.generation]

    def producer(self, stage_id: str) -> str:
        """The producer id of a stage of this run."""
        return producer_id(self.application, self.run_id, stage_id)

    def kept_results(self) -> Iterator[Mapping[str, Any]]:
        """Yield what the input ranges say about partial results that later runs read instead of the files."""
        for stream in self.streams.values():
            yield from ((stream.slice or {}).get(KEPT_RESULTS) or {}).values()

    def range_facts(self, stream_id: str) -> dict[str, Any]:
        """Return what is shown of the fixed range of an external input."""
        return slice_facts(self.stream(stream_id).slice or {})

    @property
    def table_facts(self) -> dict[str, dict[str, Any]]:
        """The facts that are shown of inputs that are tables, side inputs among them, by their keys in the plan."""
        read = {key: bound.slice or {} for key, bound in self.streams.items() if bound.role in ("input", SIDE_INPUT)}
        return {key: slice_facts(slice_) for key, slice_ in read.items() if "table" in slice_}

    def writer_stage(self, stream_id: str) -> str:
        """The stage that writes an intermediate stream."""
        return next(stage.stage_id for stage in self.plan.stages if stream_id in stage.outputs)


BYTES_OF_MESSAGE = 32
"""Bytes of a file that count as a message where only its size is known: fewer than a line of most files has."""


_OF_RANGES = ("table", "snapshot", "version", "files", "commits", "rows", "bytes", "offsets")
"""Facts of an input range that are shown."""


def slice_facts(input_slice: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of an input range: counts and offsets, the version of a table, no lists.

    Plan, page, ``status``, lineage and XComs show these figures, so that they are the same everywhere.
    """
    facts = {name: input_slice[name] for name in _OF_RANGES if input_slice.get(name) is not None}
    if "files" in facts:
        # Of changes an entry has parts that are read together, and two parts may be of one file.
        parts = [part for file in facts["files"] if isinstance(file, Mapping) for part in file.get("parts", (file,))]
        facts["files"] = len({part["path"] for part in parts}) if "commits" in facts else len(facts["files"])
    if "commits" in facts:
        facts["commits"] = len(facts["commits"])
    if not facts.get("offsets") or not counts_messages(input_slice):
        facts.pop("offsets", None)
    return facts


def counts_messages(input_slice: Mapping[str, Any]) -> bool:
    """Return whether the offsets of an input range count its messages; those of chunks of files do not."""
    return input_slice.get("offsets") is not None and "chunks" not in input_slice


def of_size(input_slice: Mapping[str, Any]) -> int | None:
    """Return how many messages files or tables of a range have by their size; None where it has none."""
    size = input_slice.get("bytes")
    return size // BYTES_OF_MESSAGE if isinstance(size, int) else None


def most_messages_of(input_slice: Mapping[str, Any] | None) -> int | None:
    """Return how many messages a fixed range has, by offsets or by size; None where nobody knows."""
    if input_slice is None or not counts_messages(input_slice):
        return of_size(input_slice or {})
    if any(end is None for _, end in input_slice["offsets"]):
        return None
    return sum(int(end) - int(first) for first, end in input_slice["offsets"])


def range_end(slice_: Mapping[str, Any]) -> bool | None:
    """Return how an input ends where its range does: for good, or (False) for this run only (rule C9).

    None: as its own messages say. A range of an unbounded input that is flushed is carried on, and ends for good.
    """
    return True if slice_.get("flushed") else slice_.get("final")


def newest_plan(files: Filesystem, folder: RunFolder) -> RunPlan | None:
    """Return the newest plan of a run; None where it has none, or a damaged one."""
    generations = folder.plan_generations(files)
    return read_report(files, folder.plan(generations[-1]), RunPlan) if generations else None
