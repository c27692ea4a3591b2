"""A root that ends with the container of a task is rejected; one that outlasts it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.provider import containers
from airflow_samza.provider.containers import reject_own_disk

WHY = "the KubernetesExecutor ends a task's container with the task"

MOUNTS = """\
overlay / overlay rw,lowerdir=/var/lib/1 0 0
proc /proc proc rw 0 0
tmpfs /dev/shm tmpfs rw,size=65536k 0 0
/dev/sda1 /data ext4 rw 0 0
server:/samza /data/my\\040share nfs4 rw 0 0
tmpfs /data/scratch tmpfs rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "mounts"
    path.write_text(MOUNTS)
    kind = containers._own_disk
    monkeypatch.setattr(containers, "_own_disk", lambda root: kind(root, path))
    return path


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize(
    ("root", "kind"), [("/samza", "overlay"), ("/dev/shm/samza", "tmpfs"), ("/data/scratch/s", "tmpfs")]
)
def test_rejects_a_root_on_the_containers_own_disk(root: str, kind: str) -> None:
    with pytest.raises(ConfigError, match=rf"is on the disk of this task's container \({kind}\), and {WHY}") as caught:
        reject_own_disk("samza_default", root, WHY)
    assert "runners_outlive_tasks" in caught.value.hint


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize(
    "root", ["/data/samza", "/data/my share/samza", "/data", "s3://bucket/samza", "webhdfs://nn:9870/s"]
)
def test_takes_a_root_that_other_containers_may_have(root: str) -> None:
    reject_own_disk("samza_default", root, WHY)


def test_a_machine_that_names_no_mounts_rejects_nothing(tmp_path: Path) -> None:
    assert containers._own_disk("/samza", tmp_path / "none") is None
