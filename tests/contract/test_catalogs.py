"""The contract of catalogs of Iceberg, over every type of them: what is written is read, once, whoever races."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import Publication, StreamSpec
from tests.support.budgets import extended_but
from tests.support.iceberg_catalogs import CATALOGS, SLOW, Processes, binding_of, make, publish, scanned, system_of
from tests.support.iceberg_lake import rows_of, stream
from tests.support.slotted import Slotted, day

OUTPUT = StreamSpec(
    "out", partitions=1, schema="id bigint", written=True, options=(("table", "web.out"), ("create", "true"))
)


class Catalog:
    """A catalog with one output, as processes bind it."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def publication(
        self,
        ids: list[int],
        run: str = "monday",
        slot: OutputSlot | None = None,
        generation: str = "1.1",
        epoch: int = 0,
    ) -> Publication:
        return Slotted("iceberg", "", self.options).publication(run, ids, slot, generation, epoch)

    def ids(self) -> list[int]:
        """Return all rows, in which the consumer here and pyiceberg have to agree."""
        ours = rows_of(system_of(self.options), stream("web.out"))
        found, theirs = (sorted(row["id"] for row in rows) for rows in (ours, scanned(self.options)))
        assert found == theirs
        return found


@pytest.fixture(params=extended_but(("folder", "rest"), CATALOGS, SLOW))
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    with binding_of(str(request.param), tmp_path / "lake", request) as options:
        yield Catalog(options)


def test_a_slot_is_written_read_replaced_and_cleared(catalog: Catalog) -> None:
    system = system_of(catalog.options)
    for ids, run, number, generation in (
        ([1, 2], "monday", 1, "1.1"),
        ([3], "tuesday", 2, "1.1"),
        ([4], "backfill", 1, "1.1"),  # of the day that monday wrote
        ([5, 6], "backfill", 1, "1.2"),  # its stage is cleared
    ):
        work = catalog.publication(ids, run, day(number), generation)
        for _ in range(2):  # the runner has died before the record of it
            facts = system.publish(OUTPUT, work)
        assert facts["rows"] == len(ids)
        assert facts["snapshot"].isdecimal()
    assert catalog.ids() == [3, 5, 6]
    fixed = system.slice_within(stream("web.out"), ())
    system.publish(OUTPUT, catalog.publication([7], "wednesday", day(3)))
    planned = rows_of(system, stream("web.out"), range_=fixed)
    assert sorted(row["id"] for row in planned) == [3, 5, 6], "a range is read as it was planned"


def test_whoever_planned_wrote_or_committed_holds_no_connection(catalog: Catalog, tmp_path: Path) -> None:
    """A process may fork after each of them; connections to buckets are idle then, which is safe."""
    here = psutil.Process()

    def held() -> set[Any]:
        ports = {one.raddr.port for one in here.net_connections() if one.status == "ESTABLISHED" and one.raddr}
        buckets = {int(catalog.options["s3.endpoint"].rpartition(":")[2])} if "s3.endpoint" in catalog.options else ()
        return ports.difference(buckets) | {one.path for one in here.open_files() if str(tmp_path) in one.path}

    before = held()
    system = system_of(catalog.options)
    for act in (
        lambda: system.create([OUTPUT]),
        lambda: catalog.publication([1]),
        lambda: system.publish(OUTPUT, catalog.publication([1])),
        lambda: system.slice_within(stream("web.out"), ()),
        lambda: system.metadata([stream("web.out")]),
        lambda: system.slot_writers(OUTPUT, day(1)),
    ):
        act()
        assert held() <= before
    with pytest.raises(TopicError) as error:
        system.slice(stream("web.nothing"))
    assert held() <= before, error  # which holds the frames of those who asked


def _forked(options: dict[str, Any], publications: list[Publication]) -> None:
    """Plan, and fork a publisher of each publication while all else of this process goes on."""
    system = system_of(options)
    system.slice_within(stream("web.out"), ())
    children = []
    for work in publications:
        child = os.fork()
        if not child:
            code = 1
            try:
                system.publish(OUTPUT, work)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * len(children)


@pytest.mark.extended
def test_processes_that_were_forked_after_a_plan_publish(catalog: Catalog) -> None:
    works = [catalog.publication([number], f"run-{number}", day(1 + number)) for number in range(3)]
    with Processes(1) as one:
        one.do(_forked, (catalog.options, works))
    assert catalog.ids() == [0, 1, 2]


@pytest.mark.extended
def test_many_processes_open_a_new_catalog_and_make_a_table_at_once(catalog: Catalog) -> None:
    with Processes(6) as many:
        many.do(make, *[(catalog.options, OUTPUT)] * 6)
        works = [catalog.publication([number], f"run-{number}", day(1 + number)) for number in range(6)]
        many.do(publish, *[(catalog.options, OUTPUT, work) for work in works])
    assert catalog.ids() == [0, 1, 2, 3, 4, 5]


@pytest.mark.extended
def test_two_processes_that_publish_the_same_leave_it_once(catalog: Catalog) -> None:
    with Processes(2) as two:
        expected = []
        for epoch in range(5):
            work = catalog.publication([epoch], slot=day(1), epoch=epoch)
            two.do(publish, *[(catalog.options, OUTPUT, work)] * 2)
            expected.append(epoch)
            assert catalog.ids() == expected
        cleared = catalog.publication([10], slot=day(1), generation="1.2")
        other = catalog.publication([20], "other", day(2))
        two.do(publish, (catalog.options, OUTPUT, cleared), (catalog.options, OUTPUT, other))
    assert catalog.ids() == [10, 20]


_TASK = """
import json, sys
import pyarrow as pa
from airflow_samza.runs.records.names import Generation, writer_name
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.system import StreamSpec, SystemBinding, SystemStreamPartition

root, read, written = json.loads(sys.argv[1])
system = bind_system("lake", SystemBinding("iceberg", {"root": root}), "")
spec = StreamSpec("views", options=(("table", "web.out"),))
run = next(system.consumer(spec, read).read(SystemStreamPartition("lake", "views", 0), None))
output = StreamSpec("out", partitions=1, written=True, options=spec.options)
producer = system.producer(output, writer_name("stage", Generation(1, 1), 0, 0), written)
producer.write(0, pa.RecordBatch.from_pylist([{"id": 10 * row["id"]} for row in run.batch.to_pylist()]))
loaded = [name for name in sys.modules if name.split(".")[0] in ("pyiceberg", "sqlalchemy", "pydantic", "deltalake")]
print(json.dumps([producer.finish(), loaded]))
"""


@pytest.mark.extended
def test_a_task_that_reads_and_writes_tables_loads_no_client_of_a_catalog(tmp_path: Path) -> None:
    options = {"root": str(tmp_path)}
    catalog, system = Catalog(options), system_of(options)
    system.create([OUTPUT])
    system.publish(OUTPUT, catalog.publication([1, 2]))
    facts = [str(tmp_path), system.slice(stream("web.out")), system.fix_output(OUTPUT, None, "app/other")]
    done = subprocess.run([sys.executable, "-c", _TASK, json.dumps(facts)], capture_output=True, text=True, check=True)
    staged, loaded = json.loads(done.stdout)
    assert loaded == []
    system.publish(OUTPUT, Publication("app/other/stage", "1.1", 0, {0: staged}))
    assert catalog.ids() == [1, 2, 10, 20]
