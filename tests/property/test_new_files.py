"""Files that come, go and are written again, with runs that fail: each is read once, or as the rules say.

Against plain Python that forgets nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from hypothesis import given, settings, strategies as st

from airflow_samza.records import from_plain, plain
from airflow_samza.systems.files.formats.options import FollowOptions
from airflow_samza.systems.files.listing import FileEntry
from airflow_samza.systems.files.new_files import FilesRead, new_files
from tests.support.budgets import share

Version = tuple[int, int]
"""Size and time of a file."""


@dataclass
class World:
    """The folder, and all that was ever read of it: by name, the versions in their order."""

    order: str
    files: dict[str, Version] = field(default_factory=dict)
    read: dict[str, list[Version]] = field(default_factory=dict)
    unfinished: set[str] = field(default_factory=set)
    clock: int = 100

    def key(self, name: str) -> tuple[int, str]:
        return (self.files[name][1] if self.order == "time" else 0, name)

    def listing(self) -> list[FileEntry]:
        return [FileEntry(name, size, mtime, name=name) for name, (size, mtime) in sorted(self.files.items())]


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.integers(0, 40)),
        st.tuples(st.just("come late"), st.integers(0, 40), st.integers(0, 120)),
        st.tuples(st.just("begin"), st.integers(0, 40)),
        st.tuples(st.just("complete"), st.integers(0, 40)),
        st.tuples(st.just("write again"), st.integers(0, 40), st.booleans()),
        st.tuples(st.just("go"), st.integers(0, 40)),
        st.tuples(st.just("run"), st.booleans()),
    ),
    max_size=60,
)


@settings(max_examples=share(300), deadline=None)
@given(
    acts=ACTS,
    order=st.sampled_from(["time", "name"]),
    remember=st.integers(1, 12),
    rule=st.sampled_from(["reject", "ignore", "read"]),
    most=st.none() | st.integers(1, 3),
)
def test_every_file_is_read_once_or_as_the_rules_say(
    acts: list[tuple[object, ...]], order: str, remember: int, rule: str, most: int | None
) -> None:
    world = World(order)
    options = FollowOptions(order=order, remember=remember, on_rewrite=rule, max_files=most)
    record = FilesRead(order)
    gone = False
    for what, *more in [*acts, ("run", True), *[("run", True)] * 40]:
        name = f"{more[0]:03}"
        world.clock += 1
        if what in ("come", "begin", "come late") and name not in world.files:
            at = int(str(more[1])) if what == "come late" else world.clock
            world.files[name] = (world.clock, at)
            if what == "begin":
                world.unfinished.add(name)
        elif what == "complete":
            world.unfinished.discard(name)
        elif what == "write again" and name in world.files:
            world.files[name] = (world.clock, world.files[name][1] if more[1] else world.clock)
        elif what == "go":
            gone = world.files.pop(name, None) is not None or gone
            world.unfinished.discard(name)
        elif what == "run":
            record = run(world, record, options, succeeds=bool(more[0]), gone=gone)


def run(world: World, record: FilesRead, options: FollowOptions, *, succeeds: bool, gone: bool) -> FilesRead:
    """Plan a run, check what it takes, and return the record that the next one starts from."""
    again = from_plain(FilesRead, json.loads(json.dumps(plain(record))))
    assert again == record
    listed = world.listing()
    new = new_files(record, listed, options, lambda file: file.name not in world.unfinished)
    taken = [file.name for file in new.files]
    assert taken == sorted(taken, key=world.key)
    assert not set(taken) & world.unfinished
    assert options.max_files is None or len(taken) <= options.max_files
    assert new_files(record, listed, options, lambda file: file.name not in world.unfinished) == new  # a retry
    rewritten = {file.name for file in (*new.rewritten, *new.ignored)}
    unread = 0
    for name, version in world.files.items():
        known = world.read.get(name, [])
        if name in taken:
            assert version not in known  # no version of a file is ever read twice
            continue
        if version in known:
            continue
        if name in rewritten:
            assert name in record.names
            continue
        waits = name in world.unfinished or (options.max_files is not None and len(taken) == options.max_files)
        behind = record.horizon is not None and world.key(name) <= record.horizon
        assert waits or behind or (options.on_rewrite == "ignore" and name in record.names)
        if behind:
            unread += not known
            # It is late only behind as many files as are remembered.
            assert sum((0 if world.order == "name" else entry[1] or 0, other) >= world.key(name)
                       for other, entry in record.names.items()) >= options.remember  # fmt: skip
    assert set(taken).isdisjoint(rewritten)
    assert (not new.rewritten) or options.on_rewrite == "reject"
    assert new.late <= unread + new.waiting
    after = record.after(new, options.remember)
    assert len(after.names) <= options.remember
    assert record.horizon is None or (after.horizon is not None and after.horizon >= record.horizon)
    if new.rewritten or not succeeds:
        return record  # the plan was rejected, or the run failed: the next one reads the same again
    for file in new.files:
        world.read.setdefault(file.name, []).append((file.size, file.mtime or 0))
    if not gone and options.on_rewrite == "reject":
        late = [n for n in world.files if n not in world.read and after.horizon and world.key(n) <= after.horizon]
        if not any(version != world.read[name][-1] for name, version in world.files.items() if name in world.read):
            assert after.late == len(late)  # nothing went, so each late file is counted once
    return after


@settings(max_examples=share(60), deadline=None)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=40),
    remember=st.integers(1, 10),
    most=st.none() | st.integers(1, 7),
    fails=st.lists(st.booleans(), max_size=60),
)
def test_files_that_come_in_order_are_all_read_however_few_are_remembered(
    sizes: list[int], remember: int, most: int | None, fails: list[bool]
) -> None:
    options = FollowOptions(remember=remember, max_files=most)
    record, read, there = FilesRead(), [], list[FileEntry]()
    for number, size in enumerate(sizes):
        there.append(FileEntry(f"{97 * number % 101}", size, number // 2 + 1, name=f"{97 * number % 101}"))
        if number % 2 == 0 and number + 1 < len(sizes):
            continue  # the two of one moment come together
        new = new_files(record, there, options, lambda _: True)
        assert new.late == 0
        if fails and fails.pop():
            continue
        record = record.after(new, remember)
        read += [file.name for file in new.files]
    while (new := new_files(record, there, options, lambda _: True)).files:
        record = record.after(new, remember)
        read += [file.name for file in new.files]
    assert sorted(read) == sorted(file.name for file in there)
    assert record.files == len(there)
    assert record.late == 0
