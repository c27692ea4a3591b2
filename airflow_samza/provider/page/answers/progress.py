"""The progress of a run: by stage, by input of a stage, by partition."""

from __future__ import annotations

from airflow_samza.provider.page.answers.answer import Answer


class Rate(Answer):
    """Messages per second, read and sent, over so many seconds."""

    read: float
    sent: float
    seconds: float


class Partition(Answer):
    """One partition of an input; None where a figure is not known. The watermark is in ms since 1970."""

    stream_id: str
    partition: int
    begin: int
    offset: int | None
    """The next offset to be read."""
    head: int | None
    offsets: int | None
    """All offsets that it has for this run: messages, and whatever else has a place among them."""
    lag: int | None
    percent_read: float | None
    """100 only where nothing is left."""
    watermark: int | None
    ends: int
    ends_expected: int
    ended: bool


class Skew(Answer):
    """The skew of partitions, by the offsets that they have for this run."""

    largest: int
    """The number of the largest partition."""
    largest_offsets: int
    mean_offsets: float
    ratio: float
    """The largest over the mean; 1.0 where all are equal."""


class Input(Answer):
    """An input of a stage, all its partitions together."""

    stream_id: str
    producer: str | None
    """The stage that writes it; None of a source."""
    partitions: int
    read: int | None
    """Messages read of it; None of a side input, which fills tables."""
    lag: int | None
    """Offsets that are not read, as far as the ends of its partitions are known."""
    percent_read: float | None
    watermark: int | None
    """The least of the partitions that have not ended, in ms since 1970."""
    ends: int
    """End-of-stream messages received: of each producing task in each partition."""
    ends_expected: int
    ended_partitions: int
    idle_partitions: int
    """Partitions at their head and without a watermark, for which time waits."""
    skew: Skew | None
    worst: list[Partition]
    """The partitions that are furthest behind, three at most."""


class HeldTable(Answer):
    """The version of a pushed table that a stage reads."""

    table_id: str
    version: int
    newest: int | None
    """The current version under the root."""
    current_from: str | None
    """Since when the newest is current, an ISO text."""


class Count(Answer):
    """A count or gauge of tasks; ``unit`` is ``seconds``, ``bytes``, or empty for a number."""

    name: str
    value: float
    unit: str


class Stage(Answer):
    """A stage of a run at a moment."""

    stage_id: str
    stage_name: str
    """The stage as texts name it: its id with its title."""
    task_id: str
    generation: str
    state: str
    """One of *not started*, *queued*, *running*, *unfinished*, *succeeded*, *failed*, *cancelled*, *lost*."""
    attempt: int
    epochs: int
    tasks: int
    tasks_done: int
    """Tasks that have nothing left to do in the open epoch."""
    tasks_ended: int
    """Tasks that have nothing left to do in the whole stage."""
    began_at: float | None
    seconds: float | None
    """The time for which attempts have run it, without what passed between them; None: not known."""
    read: int
    read_unit: str
    """``messages`` or ``partial results``."""
    sent: int
    sent_unit: str
    bytes_read: int | None
    """Bytes of the columns that were read, in memory."""
    bytes_written: int | None
    """Bytes in the systems that were written to, as far as these report them."""
    late: int
    dropped: int
    dead_letters: int
    now: Rate | None
    overall: Rate | None
    lag: int | None
    """Offsets that are not read, as far as the ends of the inputs are known."""
    percent_read: float | None
    """None unless the ends of all inputs are known."""
    watermark: int | None
    waiting_for: str | None
    several_epochs: bool
    inputs: list[Input]
    side_inputs: list[Input]
    tables: list[HeldTable]
    restored: list[Count]
    """Bytes of state with which tasks began, by where they were found."""
    metrics: list[Count]


class Progress(Answer):
    """The progress of a run. The same ``ETag`` (send it as ``If-None-Match``) is answered with 304."""

    application: str
    run: str
    generation: int
    mode: str
    state: str
    """``running``, ``succeeded`` or ``failed``."""
    stages: list[Stage]
    requests: list[Count]
    """Requests to a root that charges for them, by kind."""
    state_version: int | None
    """The version of the application's state that the run has left; None where it leaves none, or none yet."""
    next_look: float
    """Seconds after which another look is fitting; 0 when the run has ended."""
    note: str | None


class Partitions(Answer):
    """A page of the partitions of an input."""

    stage_id: str
    stream_id: str
    total: int
    partitions: list[Partition]
