"""Result of a stage, for XComs and for people: counts, places, warnings, and samples of messages that failed.

The finish of a stage makes it; operators, lineage, the page and the command line read it. Progress repeats warnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.figures import counted, duration, size
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.titles import stage_names
from airflow_samza.planner.wording import operator_title
from airflow_samza.records import durable
from airflow_samza.runs.records.expectations import ExpectationResult, result_lines
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.spans import Span, covered
from airflow_samza.runs.records.totals import GAUGES, KEYED, WITHOUT_KEY, gauges

VERSIONS = ("snapshot", "version")
"""Facts of tables by which readers find what was committed."""

CODE = "code"
"""The part of a fingerprint that is of the stage's callables."""


@dataclass(frozen=True)
class StreamResult:
    """The messages of a stage in one input or output.

    ``unit`` says what ``messages`` counts where those are partial results of an aggregation. ``expectations`` are the
    results of what the application expects.
    """

    stream_id: str
    system: str
    stream: str
    partitions: int
    messages: int
    control: int
    bytes: int
    unit: str = "messages"
    expectations: tuple[ExpectationResult, ...] = ()


@dataclass(frozen=True)
class InputResult(StreamResult):
    """The messages that a stage read of one input; ``bytes`` of the columns that were read, in memory.

    ``largest`` is the number of the partition with the most offsets for this run, ``largest_offsets`` of all
    ``offsets``; None where offsets count no messages, or in a former release.
    """

    largest: int | None = None
    largest_offsets: int = 0
    offsets: int = 0


@dataclass(frozen=True)
class OutputResult(StreamResult):
    """The messages that a stage wrote to one output. ``control`` counts copies: n tasks times m partitions (rule C2).

    ``bytes`` are those in the system, 0 where it does not report them. ``own`` marks an intermediate topic of the run;
    ``facts`` are what the system told on publishing (paths, offsets). ``held``: it was not published with the stage's
    end, and waits for an approval.
    """

    own: bool = field(kw_only=True)
    facts: Mapping[str, Any] = field(default_factory=dict)
    held: bool = False

    @property
    def version(self) -> str:
        """The newest snapshot or version of a table that the stage has committed, with its branch; "": no table."""
        said = next((f"{word} {self.facts[word]}" for word in VERSIONS if self.facts.get(word) is not None), "")
        return f"{said} on the branch {self.facts['branch']!r}".lstrip() if self.facts.get("branch") else said

    @property
    def place(self) -> str:
        """Place in the system, for people: a path, or a table with what has the rows; the stream's name else."""
        place = str(self.facts.get("path") or self.stream)
        return f"{place} ({self.version})" if self.version else place


@durable(
    "stage's result", later={"epochs": 1, "requests": {}, "fingerprint": {}, "kept": False, "ran": (), "warnings": ()}
)
@dataclass(frozen=True)
class StageResult:
    """A finished generation of a stage.

    ``seconds`` is the time for which attempts have run it, from the first epoch to published, without what passed
    between them; ``ran`` are their spans (none: a former release has written the result). ``task_seconds`` is summed
    over the tasks.

    ``task_facts`` are further counts of the tasks, summed where they are numbers, each task's gauges, and samples of
    messages that failed. ``requests`` (by kind) are the runner's own to a root that charges for them; those of tasks
    are among the facts (:func:`request_facts`). ``fingerprint`` are digests of all that the result follows from, by
    what they are of: a plan with the same ones keeps the result. ``kept``: it is that of a former generation, whose
    output counts. ``warnings`` are sentences about what its messages had in common.
    """

    application: str
    run_id: str
    stage_id: str
    generation: str
    tasks: int
    seconds: float
    task_seconds: float
    inputs: tuple[InputResult, ...]
    outputs: tuple[OutputResult, ...]
    task_facts: Mapping[str, Any] = field(default_factory=dict)
    epochs: int = 1
    requests: Mapping[str, int] = field(default_factory=dict)
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    kept: bool = False
    ran: tuple[Span, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def expectations(self) -> dict[str, tuple[ExpectationResult, ...]]:
        """The results of what the application expects, by stream."""
        results = {read.stream_id: read.expectations for read in self.inputs if read.expectations}
        return results | {each.stream_id: each.expectations for each in self.outputs if each.expectations}

    @property
    def read(self) -> int:
        """User messages read of all inputs."""
        return sum(read.messages for read in self.inputs)

    @property
    def sent(self) -> int:
        """User messages sent to all outputs."""
        return sum(output.messages for output in self.outputs)


def run_seconds(run: RunPlan, results: Sequence[StageResult]) -> float:
    """Return for how long stages of a run were at work: the time in which at least one of them was.

    Results of a former release do not tell when they ran: their times are added up, or, where stages run at the same
    time, the longest counts.
    """
    if all(result.ran for result in results):
        return covered(span for result in results for span in result.ran)
    seconds = [result.seconds for result in results]
    return max(seconds) if run.stages_run_concurrently else sum(seconds)


def new_results(results: Iterable[StageResult]) -> list[StageResult]:
    """Return the results that were made under a run's plan, without those that it keeps of a former one."""
    return [result for result in results if not result.kept]


def describe_result(result: StageResult, name: str = "") -> list[str]:
    """A stage's result as lines for a log."""
    rows = [
        (
            "read",
            i.stream_id,
            _place(i.system, i.stream),
            f"{i.messages:,} {i.unit}",
            size(i.bytes),
            "in memory",
            f"{i.control:,} control messages" if i.control else "",
        )
        for i in result.inputs
    ]
    for output in result.outputs:
        verb = "sent" if output.own else "holds" if output.held else "wrote"
        place = output.place if output.facts.get("path") else _place(output.system, output.stream)
        messages = f"{output.messages:,} {output.unit}"
        rows.append((verb, output.stream_id, place, messages, size(output.bytes), "", _sent_control(output)))
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(7)]
    tasks = "1 task" if result.tasks == 1 else f"{result.tasks} tasks"
    epochs = f", {result.epochs:,} epochs" if result.epochs > 1 else ""
    state = "keeps its result" if result.kept else "is done"
    lines = [
        f"Stage {name or result.stage_id} {state}: {tasks}{epochs}, {duration(result.seconds)} "
        f"({duration(result.task_seconds)} of work in the tasks), generation {result.generation}."
    ]
    details: list[list[str]] = [[] for _ in result.inputs] + [_paths(output) for output in result.outputs]
    for (verb, name, place, messages, held, where, control), paths in zip(rows, details, strict=True):
        left = f"  {verb:<{widths[0]}}  {name:<{widths[1]}}  {messages:>{widths[3]}}  {held:>{widths[4]}}"
        lines.append(f"{left} {where:<{widths[5]}}  {control:<{widths[6]}}  {place}".rstrip())
        lines += [f"         {path}" for path in paths]
    return [*lines, *warning_lines(result.warnings), *result_lines(result.expectations), *fact_lines(result)]


def warning_lines(warnings: Iterable[str]) -> list[str]:
    """Return warnings as a plan has them."""
    return [f"  ! {warning}" for warning in warnings]


def fact_lines(result: StageResult, *, only: tuple[str, ...] = ("",)) -> Iterator[str]:
    """Yield what tasks have counted, and samples of messages that failed; of counts those that begin with ``only``."""
    for name, value in sorted({**result.task_facts, **gauges(result.task_facts)}.items()):
        if name == GAUGES or name.startswith(KEYED):
            continue
        if isinstance(value, list):
            yield f"  {name.replace('_', ' ')}, for example:"
            yield from (f"    {sample}" for sample in value)
        elif value and name.startswith(only):
            yield f"  {counted(name, value)}" if isinstance(value, int | float) else f"  {name}: {value}"


_REQUESTS = "requests_"


def request_facts(requests: Mapping[str, int]) -> dict[str, int]:
    """Return a task's requests to the root as facts, which are summed over tasks and epochs."""
    return {f"{_REQUESTS}{kind}": number for kind, number in requests.items()}


def requests_of(facts: Mapping[str, Any]) -> dict[str, int]:
    """Return the requests, by kind, among the facts of tasks."""
    return {name.removeprefix(_REQUESTS): int(count) for name, count in facts.items() if name.startswith(_REQUESTS)}


# A log line per file of a small output is welcome; thousands of them are not.
_PATHS_SHOWN = 5


def _paths(output: OutputResult) -> list[str]:
    """The files of an output, where its system tells."""
    names = output.facts.get("files")
    if not isinstance(names, list | tuple):
        return []
    more = len(names) - _PATHS_SHOWN
    return [str(name) for name in names[:_PATHS_SHOWN]] + ([f"… and {more} more"] if more > 0 else [])


def _place(system: str, stream: str) -> str:
    return f"{system}.{stream}"


def _sent_control(output: OutputResult) -> str:
    if not output.control:
        return ""
    per_partition = output.control // output.partitions if output.partitions else output.control
    partitions = "1 partition" if output.partitions == 1 else f"{output.partitions} partitions"
    return f"{output.control:,} control messages ({per_partition} to each of {partitions})"


SIDES = ("", ".left", ".right")
"""The ends of the names of counters: of an operator with one input, and of each side of a join of streams."""


def key_warnings(plan: ExecutionPlan, stage_id: str, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each keyed input of a stage's operators at which every message lacked its key.

    ``facts`` are the counts of its tasks, added up.
    """
    for operator in map(plan.operator, plan.stage(stage_id).operators):
        for side in SIDES:
            messages = facts.get(f"{KEYED}{operator.op_id}{side}", 0)
            if messages and messages == facts.get(f"{WITHOUT_KEY}{operator.op_id}{side}"):
                all_of = f"All {messages:,} messages" if messages > 1 else "The only message"
                yield (
                    f"{all_of} {f'of the {side[1:]} side ' if side else ''}at {operator_title(operator)} of the stage "
                    f"{stage_names(plan)[stage_id]} had null in the key ({dict(operator.details).get('key', '')}): a "
                    "field may have another name in the data than in the schema, which reads it as null. Compare both; "
                    "or, if keys may be null, leave such messages out before."
                )
