"""``airflow-samza fsck``: checks everything under a root, and the files that its runs have written elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_samza.cli.environment import Environment
from airflow_samza.errors import SamzaError, TopicError
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.runs.records.folders import RunFolder, run_folders
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.stage_runners import is_worked_on
from airflow_samza.runs.upkeep.fsck import checked, fsck_run, fsck_state, fsck_tables, published_by, written_by
from airflow_samza.runs.upkeep.kept_runs import load_plans
from airflow_samza.runs.upkeep.waiting_output import waiting_output
from airflow_samza.systems.bindings import bind_log, log_under
from airflow_samza.systems.filesystems.filesystem import IDENTITY, Filesystem, root_identity
from airflow_samza.systems.log.fsck import Finding, Published, fsck as find, is_sound, without_messages
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.made_tables import DAMAGED, MADE_TABLES, MadeTable
from airflow_samza.systems.system import SystemBinding

if TYPE_CHECKING:
    from airflow_samza.systems.files.location import Location


@dataclass(frozen=True)
class Look:
    """Findings on one thing; ``kind`` is root, topic, run, state, table, made table or output."""

    kind: str
    name: str
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Return whether nothing is damaged or missing."""
        return is_sound(list(self.findings))


def fsck(environment: Environment) -> Iterator[Look]:
    """Check everything under a root, a thing after the other."""
    files = environment.files
    log = log_under(environment.root)
    runs = run_folders(files)
    publications = published(files, log, runs)
    if files.exists(IDENTITY):
        yield Look("root", IDENTITY, tuple(_identity_findings(files)))
    elsewhere = _Elsewhere(environment, files, runs)
    for name in log.topics():
        findings = elsewhere.findings(log, name)
        yield Look(
            "topic",
            name,
            tuple(topic_findings(log, name, publications.get(name, ())) if findings is None else findings),
        )
    for run in runs:
        yield Look(
            "run", f"{run.application} {run.run_id}", (*fsck_run(files, run), *_waiting(environment, files, run))
        )
    for name, findings in fsck_state(files):
        yield Look("state", name, tuple(findings))
    for name, findings in fsck_tables(files):
        yield Look("table", name, tuple(findings))
    for name in sorted(files.list(MADE_TABLES)):
        yield Look("made table", name, tuple(checked(files, f"{MADE_TABLES}/{name}", MadeTable, remedy=DAMAGED)))
    producers = _Producers(files)
    for system, path in sorted({place for run in runs for place in written_by(files, run)}):
        yield Look("output", path, tuple(_output_findings(environment, system, path, producers)))


_Holdings = tuple[LogSystem, dict[str, list[Published]]]


@dataclass
class _Elsewhere:
    """Checks of topics whose records lie under a root, and whose messages lie with brokers."""

    environment: Environment
    files: Filesystem
    runs: Iterable[RunFolder]
    by_system: dict[tuple[str, str], _Holdings | SamzaError] = field(default_factory=dict)

    def findings(self, log: LogSystem, name: str) -> list[Finding] | None:
        """Return the findings on a topic whose messages lie elsewhere; None: they do not, or nobody knows where."""
        with suppress(SamzaError):  # what is wrong with the record, the check in the log says
            topic = log.topic(name)
            if topic.messages is None or not topic.is_runs_own:
                return None
            plans = load_plans(self.files, RunFolder(topic.owner[0], name.split("/")[1]))
            system = str(topic.messages.get("system"))
            holdings = self._holdings(system, run_bindings(plans[-1].systems, self.environment.systems)[system])
            if isinstance(holdings, SamzaError):
                return [without_messages(topic, holdings)]
            between, said = holdings
            return topic_findings(between, name, said.get(name, ()))
        return None

    def _holdings(self, name: str, binding: SystemBinding) -> _Holdings | SamzaError:
        """Return a system, and what the records of runs say that it holds; an error where it cannot be asked now."""
        key = name, repr(sorted(binding.options.items()))
        if key not in self.by_system:
            try:
                between = bind_log(name, binding, self.environment.root)
                between.store.check()
                self.by_system[key] = between, published(self.files, between, self.runs)
            except SamzaError as error:
                self.by_system[key] = error
        return self.by_system[key]


def look_lines(look: Look) -> Iterator[str]:
    """Return the report on one thing: a heading, and a line per finding, the serious ones first."""
    yield f"{look.kind} {look.name}: {'sound' if look.sound else 'damaged'}"
    for finding in sorted(look.findings, key=lambda finding: not finding.serious):
        yield f"  {finding}"


def look_facts(look: Look) -> dict[str, Any]:
    """Return the report on one thing as ``fsck --json`` has it."""
    findings = [asdict(finding) for finding in look.findings]
    return {"kind": look.kind, "name": look.name, "sound": look.sound, "findings": findings}


def published(files: Filesystem, log: LogSystem, runs: Iterable[RunFolder]) -> dict[str, list[Published]]:
    """Return the messages in the topics of a log according to the results of runs, since each topic was made."""
    messages: dict[str, list[Published]] = defaultdict(list)
    creation_times: dict[str, int | None] = {}
    for run in runs:
        for system, topic, said, at in published_by(files, run):
            if system != log.name:
                continue
            if topic not in creation_times:
                with suppress(SamzaError):  # the look at the topic says so
                    creation_times[topic] = log.creation_time(topic)
            since = creation_times.setdefault(topic, None)
            if since is not None and at * 1000 >= since:
                messages[topic].append(said)
    return messages


def topic_findings(log: LogSystem, name: str, publications: Iterable[Published]) -> list[Finding]:
    """Return the findings on a topic; one that cannot be opened at all is a finding, too."""
    try:
        return find(log.topic(name), list(publications))
    except SamzaError as error:
        if "path" not in error.facts:
            raise
        return [Finding(str(error.facts["path"]), str(error.facts.get("what") or error.sentence), error.hint)]


def _identity_findings(files: Filesystem) -> Iterator[Finding]:
    try:
        root_identity(files)
    except TopicError as error:
        yield Finding(str(error.facts.get("path", IDENTITY)), error.sentence.rstrip("."), error.hint)


def _waiting(environment: Environment, files: Filesystem, run: RunFolder) -> Iterator[Finding]:
    """Yield what a run has committed and not published; of systems that cannot be bound from here nothing is known."""
    with suppress(SamzaError):
        for plan in load_plans(files, run):
            if is_worked_on(files, plan):
                return
            systems = bind_systems(run_bindings(plan.systems, environment.systems), files.root)
            for output in waiting_output(files, systems, plan):
                remedy = f"Try the task again, or: airflow-samza runs finish {run.application} {run.run_id}"
                place = files.location(run.stage(output.stage_id, Generation.parse(output.generation)).path)
                yield Finding(place, f"has {output} that are committed and not published", remedy, serious=False)


class _Producers:
    """The producers of files that are on record under a root, by their hashes."""

    def __init__(self, files: Filesystem) -> None:
        self._files = files
        self._hashes = self._on_record()
        self._root = ""
        with suppress(SamzaError):  # which is said of the file itself
            self._root = root_identity(files) if files.exists(IDENTITY) else ""

    def findings(self, output: Location) -> list[Finding]:
        """Return the findings on files of runs that are not on record."""
        from airflow_samza.systems.files.fsck import fsck_unrecorded
        from airflow_samza.systems.files.published_files import published_at

        published = published_at(output)
        findings = list(fsck_unrecorded(output, published, self._hashes, self._root))
        if findings:  # a run that has begun since the last look is on record before it publishes
            self._hashes = self._on_record()
            findings = list(fsck_unrecorded(output, published, self._hashes, self._root))
        return findings

    def _on_record(self) -> frozenset[str]:
        """Return all hashes; none where a plan cannot be read, which the check of its run reports."""
        from airflow_samza.systems.files.output_records import producer_hash

        with suppress(SamzaError):
            return frozenset(
                producer_hash(plan.producer(stage.stage_id), plan.stream(stream_id).spec.name)
                for run in run_folders(self._files)
                for plan in load_plans(self._files, run)
                for stage in plan.plan.stages
                for stream_id in stage.outputs
            )
        return frozenset()


def _output_findings(environment: Environment, system: str, path: str, producers: _Producers) -> list[Finding]:
    from airflow_samza.systems.files.fsck import fsck_output
    from airflow_samza.systems.files.location import open_location

    binding = environment.systems.get(system)
    storage = dict(binding.options.get("storage_options") or {}) if binding is not None else {}
    try:
        output = open_location(path, storage)
        return [*fsck_output(output), *producers.findings(output)]
    except (SamzaError, OSError) as error:
        remedy = f"Bind the system {system!r} of this output (--system, --env), so that it can be looked at."
        return [Finding(path, f"cannot be looked at from here: {error}", remedy, serious=False)]
