"""Records of a stage, and its look-ups, grow with the number of its tasks and not faster."""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_samza.systems.filesystems.local import LocalFilesystem
from benchmarks import scale
from benchmarks.gen_data import page_views

pytestmark = pytest.mark.extended


FEW, MANY = 8, 64
OPERATIONS = ("read", "list", "exists", "size", "put_if_absent")
"""Segments are opened as the rows lie, so that is no matter of counting."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[scale.Point, Counter[str]]]:
    """A run with few tasks and one with many.

    The middle stage's figures, and how often each operation of the filesystem was used.
    """
    import pyarrow.parquet as pq

    found = {}
    for partitions in (FEW, MANY):
        work = tmp_path_factory.mktemp(f"scale-{partitions}")
        views = work / "data" / "views.parquet"
        views.parent.mkdir()
        pq.write_table(page_views(4 * partitions), views, row_group_size=4)
        calls: Counter[str] = Counter()
        with pytest.MonkeyPatch.context() as patch:
            for name in OPERATIONS:
                patch.setattr(LocalFilesystem, name, counting(name, calls))
            found[partitions] = scale.measure(partitions, views, work), calls
    return found


def counting(name: str, calls: Counter[str]) -> object:
    original = getattr(LocalFilesystem, name)

    def counted(self: LocalFilesystem, *arguments: object, **options: object) -> object:
        calls[name] += 1
        return original(self, *arguments, **options)

    return counted


Measured = dict[int, tuple[scale.Point, "Counter[str]"]]


def test_a_commit_record_grows_with_the_tasks(measured: Measured) -> None:
    few, many = measured[FEW][0], measured[MANY][0]
    assert many.segments > 4 * few.segments
    assert many.commit_bytes / many.batches < 1.1 * few.commit_bytes / few.batches


def test_a_manifest_does_not_name_the_other_tasks(measured: Measured) -> None:
    few, many = measured[FEW][0], measured[MANY][0]
    assert many.manifest_bytes / MANY < 1.1 * few.manifest_bytes / FEW


def test_an_intent_has_a_few_bytes_for_each_partition(measured: Measured) -> None:
    assert (measured[MANY][0].intent_bytes - measured[FEW][0].intent_bytes) / (MANY - FEW) < 20


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_task_looks_up_as_much_among_many_as_among_few(measured: Measured, operation: str) -> None:
    few, many = measured[FEW][1][operation], measured[MANY][1][operation]
    assert few, f"{operation} is not counted"
    assert many / MANY < 1.1 * few / FEW


def test_the_formula_is_the_line_that_fits() -> None:
    fixed, each = scale.line([2, 16, 256], [0.1 + 0.01 * n for n in (2, 16, 256)])
    assert fixed == pytest.approx(0.1)
    assert each == pytest.approx(0.01)
    assert scale.line([2, 200], [1.0, 0.9])[1] == 0.0
