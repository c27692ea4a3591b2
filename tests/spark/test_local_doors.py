"""A local Spark listens where nobody else can talk to it, and no list of processes shows how it is set."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from airflow_samza.private_folder import scratch_folder
from demo.local_airflow import still_running

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(600)]

PROGRAM = """
import json, sys
from airflow_samza.spark.sessions.session_start import start_session
spark = start_session("doors", "local[1]", json.loads(sys.argv[1]) | json.load(sys.stdin))
context = spark.sparkContext
secret = context.broadcast("what a task was handed")
seen = context.parallelize([1], 1).map(lambda number: secret.value).collect()
manager = context._jvm.org.apache.spark.SparkEnv.get().blockManager().blockManagerId()
print(json.dumps({
    "rpc": int(context.getConf().get("spark.driver.port")), "blocks": manager.port(), "application": context.applicationId,
    "block": f"broadcast_{secret._jbroadcast.id()}_piece0", "seen": seen,
    "shown": context.getConf().get("spark.samza.test"), "memory": context._jvm.java.lang.Runtime.getRuntime().maxMemory(),
}), flush=True)
import os; os.read(int(sys.argv[2]), 1)
"""

SETTING = "a setting that no list of processes shows"


@dataclass
class Local:
    """A Spark in a process of its own."""

    process: psutil.Process
    told: dict[str, object]

    def everyone(self) -> list[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    reads, writes = os.pipe()
    conf = {"spark.samza.test": SETTING, "spark.driver.memory": "600m"}
    # None of these is the business of this machine's environment.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("SPARK_LOCAL_IP", "PYSPARK_SUBMIT_ARGS")
    }
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "{}", str(reads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        pass_fds=(reads,),
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin as pipe:
            json.dump(conf, pipe)
        line = process.stdout.readline()
        assert line, "Spark did not start"
        yield Local(psutil.Process(process.pid), json.loads(line))
    finally:
        os.close(writes)
        os.close(reads)
        process.wait(120)
        assert process.stdout is not None
        process.stdout.close()


def test_all_that_listens_is_on_loopback(local: Local) -> None:
    listening = [
        found.laddr
        for process in local.everyone()
        for found in process.net_connections("inet")
        if found.status == "LISTEN"
    ]
    ports = {place.port for place in listening}
    assert {local.told["rpc"], local.told["blocks"]} <= ports
    assert {place.ip.removeprefix("::ffff:") for place in listening} <= {"127.0.0.1", "::1"}


def test_who_has_no_secret_gets_no_block(local: Local) -> None:
    def text(words: str) -> bytes:
        return struct.pack(">i", len(words)) + words.encode()

    # OpenBlocks: application, executor, ids of blocks.
    body = (
        b"\x00"
        + text(str(local.told["application"]))
        + text("driver")
        + struct.pack(">i", 1)
        + text(str(local.told["block"]))
    )
    request = b"\x03" + struct.pack(">qi", 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", int(str(local.told["blocks"]))), timeout=60) as there:
        there.sendall(struct.pack(">q", len(request) + 8) + request)
        answer = there.recv(9)
    given, rejected = 4, 5
    assert answer == b"" or answer[8] == rejected
    assert answer == b"" or answer[8] != given


def test_no_setting_is_on_a_command_line(local: Local) -> None:
    shown = []
    for process in local.everyone():
        with suppress(psutil.Error):  # it has ended meanwhile
            shown.append(" ".join(process.cmdline()))
    assert any("java" in line for line in shown)
    assert [line for line in shown if SETTING in line or "--conf" in line] == []


def test_settings_that_java_starts_with_are_settings_still(local: Local) -> None:
    assert local.told["shown"] == SETTING
    assert int(str(local.told["memory"])) < 700 * 1024 * 1024


def test_sockets_of_workers_lie_where_only_we_can_enter(local: Local) -> None:
    names = [
        Path(str(found.laddr))
        for process in local.everyone()
        for found in process.net_connections("unix")
        if found.laddr
    ]
    sockets = {name for name in names if name.suffix == ".sock"}
    assert local.told["seen"] == ["what a task was handed"]
    assert sockets
    for folder in {name.parent for name in sockets}:
        found = folder.lstat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o700, os.geteuid())


ROWS = """
import os, sys
os.umask(0)
from airflow_samza.spark.sessions.session_start import start_session
spark = start_session("rows", "local[1]", {"spark.samza.test": "hush"})
frame = spark.range(1000).selectExpr("id", "concat('row-', id) AS text").repartition(4).persist()
assert frame.count() == 1000
spark.addArtifact(__file__, file=True)
print(spark.sparkContext._gateway.proc.pid, flush=True)
sys.stdin.read()
"""


def test_rows_lie_where_only_we_can_enter_and_are_swept_when_their_process_was_killed(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as top:
        (tmp_path / "rows.py").write_text(ROWS)
        environment = {**os.environ, "TMPDIR": top}
        process = subprocess.Popen(
            [sys.executable, str(tmp_path / "rows.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        with process:
            assert process.stdout is not None
            java = psutil.Process(int(process.stdout.readline()))
            (ours,) = Path(top).iterdir()
            assert stat.S_IMODE(ours.stat().st_mode) == 0o700
            assert {path.name.partition("-")[0] for path in ours.rglob("*")} >= {"blockmgr", "artifacts"}
            open_files = [file.path for one in (psutil.Process(process.pid), java) for file in one.open_files()]
            elsewhere = [path for path in open_files if not path.startswith((top, sys.prefix))]
            assert [path for path in elsewhere if path.startswith(("/tmp/", "/var/tmp/"))] == []
            os.kill(process.pid, signal.SIGKILL)
        assert still_running([java], 60) == []
        sweeping = "from airflow_samza.launch.own_scratch import sweep_left_behind; print(len(sweep_left_behind()))"
        swept = subprocess.run([sys.executable, "-c", sweeping], env=environment, capture_output=True, text=True)
        assert swept.stdout == "1\n", swept.stderr
        assert [path for path in ours.rglob("*") if not path.is_dir()] == []
        assert {str(path.relative_to(ours)) for path in ours.iterdir()} <= {"p"}


def test_no_file_of_settings_stays(local: Local) -> None:
    staying = []
    for file in Path(scratch_folder()).glob("**/spark.conf"):
        with suppress(FileNotFoundError):  # another Spark of this host has just read its own
            staying += [file] if "spark.samza.test" in file.read_text() else []
    assert staying == []
