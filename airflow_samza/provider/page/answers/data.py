"""Topics with their messages, tables with their versions, state; the preview of a clear."""

from __future__ import annotations

from typing import Any, Literal

from airflow_samza.provider.page.answers.answer import Answer


class Topic(Answer):
    """A stream of the run that is a topic; None where a figure is not known."""

    stream_id: str
    role: str
    system: str
    kind: str
    """``log`` or ``kafka`` …"""
    topic: str
    partitions: int | None
    messages: int | None
    offsets: int | None
    """In place of messages, where a system counts offsets only: markers of transactions have some, too."""
    control: int | None
    bytes: int | None
    last_commit: float | None
    expires: float | None
    note: str | None


class Topics(Answer):
    """The topics of a run."""

    topics: list[Topic]


class TopicPartition(Answer):
    """The offsets of a partition: the oldest and the next."""

    partition: int
    oldest: int
    next: int
    messages: int | None
    control: int | None


class TopicCommit(Answer):
    """A commit that readers of a topic see."""

    commit: int
    at: float | None
    messages: int
    bytes: int
    control: int
    generation: str
    epoch: int
    producer: str


class TopicDetail(Answer):
    """A topic: schema, offsets of every partition, the newest commits."""

    topic: Topic
    columns: str | None
    partitions: list[TopicPartition]
    commits: list[TopicCommit]
    commits_total: int


class Message(Answer):
    """A message of a topic, or a control message (end-of-stream, watermark)."""

    partition: int
    offset: int
    control: str | None
    """The kind of a control message; None of a message of the user's."""
    value: dict[str, Any]
    """The columns; a masked one is ``***``, a long text is cut, bytes are base64."""


class Messages(Answer):
    """Messages of one partition from an offset on."""

    stream_id: str
    partition: int
    oldest: int
    head: int
    next_offset: int
    """The offset to go on from."""
    messages: list[Message]
    masked: list[str]
    """The columns that are masked."""
    note: str | None


class TableReader(Answer):
    """A run that is on and reads a version of a table."""

    application: str
    run: str
    version: int
    dag_id: str
    dag_run_id: str


class TableVersion(Answer):
    """A version of a pushed table."""

    number: int
    kind: str
    rows: int | None
    deletes: int | None
    bytes: int | None
    current_from: str
    push_id: str
    current: bool
    expired: bool
    readers: list[TableReader]


class Table(Answer):
    """A table of the run; only pushed ones have versions."""

    table_id: str
    kind: str
    system: str | None
    topic: str | None
    reads: int | None
    """The version that the run was planned with."""
    current: int | None
    versions: list[TableVersion]
    hidden_readers: int
    """Readers in runs of Dags that the user may not read."""
    note: str | None


class Tables(Answer):
    """The tables of a run."""

    tables: list[Table]


class StateVersion(Answer):
    """A version of an application's state."""

    version: int
    parent: int | None
    run: str | None
    reset_to: int | None
    at: float
    interval: list[str] | None
    offsets: int
    """The next offsets to read, all inputs and partitions added up: they grow by one with each message or marker."""
    files: int
    bytes: int


class Lease(Answer):
    """The run that holds the state, and how it stands."""

    run: str
    fence: int
    standing: str


class State(Answer):
    """The state that the runs of an application hand on; ``note`` says where they hand on none."""

    application: str
    app_id: str
    carried: bool
    versions: list[StateVersion]
    lease: Lease | None
    apart: list[str]
    """Runs with a state of their own."""
    note: str | None


class ClearedStage(Answer):
    """A stage in the preview of a clear."""

    stage_id: str
    stage_name: str
    task_id: str
    effect: Literal["runs again", "stays", "must run again"]
    """``must run again``: it reads what a cleared stage writes, and has to be cleared, too."""
    why: str
    seconds: float | None
    """Seconds that it took the last time."""
    messages: int | None


class Consumer(Answer):
    """A reader of an output, outside of the run, that has taken what is written again."""

    kind: Literal["dag", "application"]
    name: str
    run: str | None
    stream_id: str
    why: str


class ClearPreview(Answer):
    """The effects of clearing a task; nothing is changed."""

    task_id: str
    stages: list[ClearedStage]
    consumers: list[Consumer]
    sentences: list[str]
