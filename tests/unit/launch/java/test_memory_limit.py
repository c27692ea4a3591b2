from __future__ import annotations

import logging
from pathlib import Path

import pytest

from airflow_samza.launch.java.memory_limit import heap_in_container, memory_limit

GIB = 1 << 30


def group(folder: Path, text: str, files: dict[str, str]) -> int | None:
    (folder / "cgroup").write_text(text)
    for name, content in files.items():
        path = folder / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return memory_limit(folder / "cgroup", folder / "fs")


@pytest.mark.parametrize(
    ("text", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "2147483648\n"}, 2 * GIB),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("0::/pod/base\n", {"pod/memory.max": "4294967296", "pod/base/memory.max": "max"}, 4 * GIB),
        ("0::/../../pod\n", {"memory.max": "4294967296"}, 4 * GIB),
        ("9:name=systemd:/\n4:memory:/docker/1\n", {"memory/docker/1/memory.limit_in_bytes": "3221225472"}, 3 * GIB),
        ("4:memory:/docker/1\n", {"memory/memory.limit_in_bytes": "3221225472"}, 3 * GIB),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("4:cpu,cpuacct:/\n", {}, None),
    ],
)
def test_the_limit_is_that_of_the_control_group(
    tmp_path: Path, text: str, files: dict[str, str], limit: int | None
) -> None:
    assert group(tmp_path, text, files) == limit


def test_a_machine_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert memory_limit(tmp_path / "none", tmp_path) is None


@pytest.mark.parametrize(
    ("limit", "heap"), [(GIB, "512m"), (2 * GIB, "512m"), (3 * GIB, "768m"), (4 * GIB, None), (64 * GIB, None)]
)
def test_the_heap_of_a_local_spark_follows_the_containers_limit(limit: int, heap: str | None) -> None:
    assert heap_in_container("1g", limit) == ({} if heap is None else {"spark.driver.memory": heap})


def test_a_container_that_is_too_small_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        heap_in_container("1g", GIB)
    assert "may use 1024 MiB of memory; a stage runner with its Spark needs about 1536" in caplog.text
