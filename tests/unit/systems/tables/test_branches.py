"""Write, audit, publish, whatever the kind of the table: what a run commits to a branch is seen once it is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.capabilities import OutputCommit
from airflow_samza.systems.delta.branches import Branch
from airflow_samza.systems.delta.publishing import _Publisher
from tests.support import delta_outputs, iceberg_outputs
from tests.support.iceberg_lake import table_of
from tests.support.slotted import day
from tests.support.table_outputs import ids, output_stream


class OfIceberg(iceberg_outputs.Output):
    """An output to a branch of a table of Iceberg."""

    kind = "iceberg"

    def audited(self, run: str = "run") -> list[int]:
        found: list[int] = self.table().scan().use_ref(f"audit/{run}").to_arrow()["id"].to_pylist()
        return sorted(found)


class OfDelta(delta_outputs.Output):
    """An output to a table of Delta, whose commits wait under the root."""

    kind = "delta"

    def audited(self, run: str = "run") -> list[int]:
        files = delta_outputs.waiting_files(self.folder, run)
        return sorted([*self.ids(), *(n for file in files for n in pq.read_table(file)["id"].to_pylist())])


Output = OfIceberg | OfDelta


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_samza.systems.tables.publishing.time.sleep", lambda _: None)


@pytest.fixture(params=["iceberg", "delta"])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Output]:
    spec = output_stream(branch="audit/run")
    if request.param == "iceberg":
        table_of(tmp_path, Schema(NestedField(1, "id", LongType())), name="web.out")
        yield OfIceberg(tmp_path, spec)
        return
    delta_outputs.made_output(tmp_path / "lake", "id bigint")
    yield OfDelta(tmp_path / "lake", spec)


def publish(output: Output, *committed: OutputCommit) -> str | None:
    return output.system.publish_branch(output.spec, "app/run", committed)


def drop(output: Output) -> bool:
    return output.system.drop_branch(output.spec, "app/run")


def test_rows_are_seen_when_the_branch_is_published_by_one_commit(output: Output) -> None:
    output.foreign({"id": 0})
    facts = output.publish(ids([1]))
    output.publish(ids([2]), epoch=1)
    assert facts["branch"] == "audit/run"
    assert (output.ids(), output.audited()) == ([0], [0, 1, 2])
    before = output.versions()
    version = publish(output)
    assert version is not None
    assert output.ids() == [0, 1, 2]
    assert output.versions() - before == (1 if output.kind == "delta" else 0)
    assert publish(output) is None
    committed = [OutputCommit("app/run/stage", output.spec.name, "1.1")]
    assert output.system.published_version(output.spec, committed) == version
    assert output.system.published_version(output.spec, [*committed, committed[0]._replace(generation="1.2")]) is None
    output.foreign({"id": 3})
    assert output.system.published_version(output.spec, committed) == version
    output.publish(ids([2]), epoch=1)  # a late retry
    assert publish(output) is None
    assert output.ids() == [0, 1, 2, 3]


def test_an_empty_table_gets_its_first_rows_by_a_branch(output: Output) -> None:
    output.publish(ids([1]))
    assert output.ids() == []
    publish(output)
    assert output.ids() == [1]


def test_an_output_whose_first_epochs_were_empty_begins_its_branch_later(output: Output) -> None:
    output.publish(ids([1]), epoch=2, continues=False)
    output.publish(ids([2]), epoch=4)
    assert output.audited() == [1, 2]
    publish(output, OutputCommit("app/run/stage", output.spec.name, "1.1"))
    assert output.ids() == [1, 2]


def test_an_epoch_that_continues_one_of_which_nothing_is_left_is_rejected(output: Output) -> None:
    with pytest.raises(TopicError, match="was dropped after the output 'out' was committed to it"):
        output.publish(ids([2]), epoch=1)


def test_publishing_to_the_branch_again_changes_nothing(output: Output) -> None:
    work = output.publication(ids([1]))
    output.system.publish(output.spec, work)
    output.system.publish(output.spec, work)
    assert output.audited() == [1]
    publish(output)
    assert output.ids() == [1]


@pytest.mark.parametrize("slot", [None, day(1)], ids=["no slot", "slot"])
def test_a_clear_replaces_on_the_branch_and_after_it_was_published(output: Output, slot: Any) -> None:
    output.publish(ids([1]), slot=slot)
    output.publish(ids([2]), slot=slot, generation="1.2")
    assert output.audited() == [2]
    with pytest.raises(TopicError, match=r"generation 1\.2 of it has published already"):
        output.publish(ids([3]), slot=slot, epoch=1)
    publish(output)
    output.publish(ids([4]), slot=slot, generation="1.3")
    assert output.ids() == [2]
    publish(output)
    assert output.ids() == [4]


def test_a_run_that_is_never_published_changes_nothing_for_others(output: Output) -> None:
    slot = day(1)
    plain = type(output)(output.folder)
    plain.publish(ids([1]), run="monday", slot=slot)
    output.publish(ids([2]), slot=slot)
    assert output.ids() == [1]
    assert [one.run_id for one in plain.system.slot_writers(plain.spec, slot)] == ["monday"]
    plain.publish(ids([3]), run="monday", generation="1.2", slot=slot)
    assert output.ids() == [3]


def test_what_other_stages_have_on_a_branch_stays_when_one_is_cleared(output: Output) -> None:
    output.publish(ids([1]), stage="first")
    output.publish(ids([2]), stage="second")
    output.publish(ids([3]), stage="second", generation="1.2")
    assert output.audited() == [1, 3]
    before = output.versions()
    publish(output)
    assert output.ids() == [1, 3]
    assert output.versions() - before == (1 if output.kind == "delta" else 0)


def test_a_slot_that_a_former_run_has_written_is_replaced_when_the_branch_is_published(output: Output) -> None:
    slot = day(1)
    type(output)(output.folder).publish(ids([1, 2]), run="monday", slot=slot)
    output.publish(ids([3]), slot=slot, stage="first")
    output.publish(ids([4]), slot=slot, stage="second")
    assert output.ids() == [1, 2]
    publish(output)
    assert output.ids() == [3, 4]


def test_a_branch_that_was_dropped_is_begun_anew_by_a_clear_alone(output: Output) -> None:
    output.foreign({"id": 0})
    output.publish(ids([1]))
    assert drop(output)
    assert not drop(output)
    assert output.ids() == [0]
    with pytest.raises(TopicError, match="was dropped after the output 'out' was committed to it"):
        output.publish(ids([2]), epoch=1)
    output.publish(ids([3]), generation="1.2")
    first, second = (OutputCommit("app/run/stage", output.spec.name, number) for number in ("1.1", "1.2"))
    with pytest.raises(TopicError, match="was dropped after the output 'out' was committed to it"):
        publish(output, first)
    publish(output, second)
    assert output.ids() == [0, 3]
    publish(output, second)
    assert not drop(output)
    assert output.ids() == [0, 3]


@pytest.mark.parametrize("first", ["the drop", "the publisher"])
def test_a_drop_that_meets_a_publisher_says_whether_readers_see_the_rows(
    output: Output, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output.publish(ids([1]))
    dropped: list[bool] = []
    published: list[str | None] = []

    def meet() -> None:
        """Publish between the look and the act of a drop, or drop between those of a publisher."""
        meeting.append(True)
        if first == "the publisher":
            published.append(publish(output, mine))
        else:
            dropped.append(drop(output))

    meeting: list[bool] = []
    mine = OutputCommit("app/run/stage", output.spec.name, "1.1")
    monkeypatch.setattr(*_before_the_act(output, first, lambda: None if meeting else meet()))
    if first == "the publisher":
        dropped.append(drop(output))
    else:
        with pytest.raises(TopicError, match="was dropped after the output 'out' was committed to it"):
            publish(output, mine)
    assert len(dropped) == len(meeting) == 1
    assert output.ids() == ([1] if published else [])
    assert dropped == [not published]
    output.system.publish(output.spec, output.publication(ids([2]), generation="1.2"))
    publish(output, mine._replace(generation="1.2"))
    assert output.ids() == [2]


def _before_the_act(output: Output, first: str, meet: Callable[[], None]) -> tuple[Any, str, Any]:
    """Return what is to be replaced so that somebody comes first: an object, a name and a value."""
    owner: Any = Table if isinstance(output, OfIceberg) else Branch if first == "the publisher" else _Publisher
    name = {Table: "_do_commit", Branch: "_path"}.get(owner, "described_files")
    act = getattr(owner, name)

    def later(*arguments: Any, **options: Any) -> Any:
        meet()
        return act(*arguments, **options)

    return owner, name, later


def test_main_is_no_branch_to_be_published(output: Output) -> None:
    with pytest.raises(ConfigError, match="branch='main', which is what readers see"):
        output.system.options_of(output_stream(branch="main"))
