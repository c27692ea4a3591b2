from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from airflow_samza.launch.java.container_limits import (
    MemoryRoom,
    cores_here,
    heap_in_container,
    memory_limit,
    memory_rooms,
)

GIB = 1 << 30


def group(folder: Path, text: str, files: dict[str, str]) -> tuple[Path, Path]:
    """Make the files of control groups; return those that a limit is read from."""
    (folder / "cgroup").write_text(text)
    for name, content in files.items():
        path = folder / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder / "cgroup", folder / "fs"


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
    assert memory_limit(*group(tmp_path, text, files)) == limit


@pytest.mark.parametrize(
    ("text", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/pod/base\n", {"pod/cpu.max": "50000 100000", "pod/base/cpu.max": "max 100000"}, 1),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 3),
        ("0::/\n", {"cpu.max": "6400000 100000\n"}, 8),
        ("4:cpu,cpuacct:/docker/1\n", {"cpu/docker/1/cpu.cfs_quota_us": "300000", "cpu/docker/1/cpu.cfs_period_us": "100000"}, 3),
        ("4:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ("4:memory:/\n", {}, 8),
    ],
)  # fmt: skip
def test_the_cores_are_those_of_the_process_or_the_quota_of_its_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, files: dict[str, str], cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert cores_here(*group(tmp_path, text, files)) == cores


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


HOST = MemoryRoom("this host", 64 * GIB, 40 * GIB)
STALLS = "some avg10=2.50 avg60=0.40 avg300=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


def rooms(folder: Path, text: str, files: dict[str, str]) -> list[MemoryRoom]:
    host = (
        f"MemTotal: {HOST.limit // 1024} kB\nMemFree: 1 kB\nMemAvailable: {HOST.free // 1024} kB\nHugePages_Total: 0\n"
    )
    for name, content in {"proc/self/cgroup": text, "proc/meminfo": host, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return memory_rooms(folder / "proc", folder / "fs")


def test_room_of_version_2_is_the_limit_without_what_is_used_and_not_droppable(tmp_path: Path) -> None:
    of = {"memory.max": str(2 * GIB), "memory.current": str(GIB), "memory.stat": f"anon 1\ninactive_file {GIB // 4}\n"}
    found = rooms(tmp_path, "0::/\n", {f"fs/{name}": text for name, text in of.items()})
    assert found == [MemoryRoom(f"the control group {tmp_path / 'fs'}", 2 * GIB, GIB + GIB // 4), HOST]


def test_room_of_version_1_counts_the_whole_groups_files(tmp_path: Path) -> None:
    top = "fs/memory/docker/1"
    files = {
        f"{top}/memory.limit_in_bytes": str(3 * GIB),
        f"{top}/memory.usage_in_bytes": str(2 * GIB),
        f"{top}/memory.stat": f"inactive_file 5\ntotal_inactive_file {GIB}\n",
        "fs/memory/memory.limit_in_bytes": "9223372036854771712",
        "proc/pressure/memory": STALLS,
    }
    found = rooms(tmp_path, "9:name=systemd:/\n4:memory:/docker/1\n0::/docker/1\n", files)
    assert found == [
        MemoryRoom(f"the control group {tmp_path / top}", 3 * GIB, 2 * GIB),
        MemoryRoom("this host", HOST.limit, HOST.free, 2.5),
    ]


def test_every_group_above_has_a_room_of_its_own_with_its_pressure(tmp_path: Path) -> None:
    files: dict[str, str] = {}
    for name, limit, used, pressure in (("pod", 4, 3, STALLS), ("pod/main", 8, 1, "some avg10=0.00\n")):
        group = f"fs/{name}"
        files |= {f"{group}/memory.max": str(limit * GIB), f"{group}/memory.current": str(used * GIB)}
        files |= {f"{group}/memory.stat": "", f"{group}/memory.pressure": pressure}
    found = rooms(tmp_path, "0::/pod/main\n", files)
    assert [(room.limit // GIB, room.free // GIB, room.stalled) for room in found] == [
        (4, 1, 2.5),
        (8, 7, 0.0),
        (64, 40, 0.0),
    ]


@pytest.mark.parametrize("torn", ["memory.current", "memory.stat", "memory.pressure"])
def test_files_that_a_kernel_does_not_have_leave_the_host(tmp_path: Path, torn: str) -> None:
    files = {"memory.max": str(GIB), "memory.current": "1", "memory.stat": "", "memory.pressure": STALLS, torn: "?"}
    found = rooms(tmp_path, "0::/\n", {f"fs/{name}": text for name, text in files.items()})
    assert found[-1] == HOST
    assert len(found) == (2 if torn == "memory.pressure" else 1)
