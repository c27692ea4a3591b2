"""Outputs, bad records, failures, logs and links of a run."""

from __future__ import annotations

from airflow_samza.provider.page.answers.answer import Answer


class Output(Answer):
    """An output: what a stage has written to a stream."""

    stage_id: str
    stage_name: str
    stream_id: str
    system: str
    place: str
    own: bool
    """True for a topic of the run itself, between two stages."""
    messages: int
    unit: str
    """``messages`` or ``partial results``."""
    bytes: int
    partitions: int
    files: int | None
    """The number of files; None where the system has none."""
    file_names: list[str]
    """The first of them."""
    seconds: float
    generation: str


class DownstreamRun(Answer):
    """A run of another Dag that an asset event of this one has started; only of Dags that the user may read."""

    dag_id: str
    run_id: str
    state: str | None


class AssetEvent(Answer):
    """An event of an asset that this Dag run has sent."""

    task_id: str | None
    uri: str
    name: str
    at: float
    messages: int | None
    runs: list[DownstreamRun]
    hidden_runs: int
    """Runs of Dags that the user may not read."""


class Waiting(Answer):
    """Messages that are committed, and neither published nor worked on."""

    stage_id: str
    text: str


class Outputs(Answer):
    """The outputs of a run."""

    outputs: list[Output]
    waiting: list[Waiting]
    events: list[AssetEvent]


class BadRecords(Answer):
    """The number of messages of an operator that got no further."""

    stage_id: str
    stage_name: str
    operator: str
    """Empty where the count is that of the whole stage."""
    kind: str
    """``late``, ``dropped``, ``dead_letters`` …"""
    count: int


class Bad(Answer):
    """The bad records of a run; samples have a route of their own."""

    records: list[BadRecords]
    samples_note: str | None
    """The reason for which no samples are shown, where that is so."""


class Sample(Answer):
    """A message that failed, as the task has noted it, with the error."""

    stage_id: str
    stage_name: str
    operator: str
    text: str


class Samples(Answer):
    """Samples of bad records."""

    samples: list[Sample]
    note: str | None


class Failure(Answer):
    """The failure of an attempt at a stage."""

    stage_id: str
    stage_name: str
    generation: str
    attempt: int
    state: str
    kind: str
    sentence: str
    hint: str | None
    callable: str | None
    """The user's function that raised, by file and line."""
    facts: list[str]
    at: float | None
    another_try: str
    """The likely end of another try of the task: ``may succeed`` …"""


class Failures(Answer):
    """The newest failure of each stage that has one."""

    failures: list[Failure]


class RunnerLog(Answer):
    """The end of a stage runner's log."""

    runner: int
    host: str | None
    place: str
    """The place of the log."""
    bytes: int | None
    from_byte: int
    text: str
    lives: bool | None
    note: str | None
    """The reason for which there is no text, or not all of it."""


class Logs(Answer):
    """The logs of a run's stage runners, newest runner first."""

    logs: list[RunnerLog]
    note: str | None


class Link(Answer):
    """A link of a run: to Spark's page, an output, a log."""

    name: str
    url: str
    stage_id: str | None
    note: str | None


class Links(Answer):
    """The links of a run."""

    links: list[Link]
