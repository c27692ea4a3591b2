"""A process that forks while it has clients of Kafka: its child makes clients of its own, and ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from demo.kafka import Kafka

pytestmark = [pytest.mark.extended, pytest.mark.kafka]

CLIENTS = ["check", "admin", "consumer", "reader", "publisher"]

PROGRAM = """
import glob, logging, os, sys

def note_threads():
    # Registered first, so it runs last before the fork.
    names = [open(path).read().strip() for path in glob.glob("/proc/self/task/*/comm")]
    print(*sorted(name for name in names if name.startswith("rdk:")))

os.register_at_fork(before=note_threads)
logging.getLogger("airflow_samza.kafka").addHandler(logging.NullHandler())

from airflow_samza.systems.kafka import access_check, clients
from airflow_samza.systems.kafka.access import access_of
from airflow_samza.systems.system import SystemBinding

if sys.argv[2] == "publisher":
    from tests.support.kafka_outputs import new_topic, outputs, publication, rows, stage, stream

    found, spec, epochs = outputs(sys.argv[1], sys.argv[3]), stream(new_topic()), []
    found.create([spec])

if sys.argv[2] == "reader":
    from airflow_samza.systems.system import StreamSpec
    from tests.support.kafka_topics import Topics, numbered, read, rows

    topics = Topics(sys.argv[1])
    spec = StreamSpec(topics.make(), schema="id bigint")
    topics.send(spec.name, numbered(range(100)))
    del topics.admin  # it is the test's, and no client of a test is closed before a fork

access = access_of("events", SystemBinding("kafka", {"bootstrap.servers": sys.argv[1]}))

def use():
    if sys.argv[2] == "publisher":
        epochs.append(len(epochs))
        staged = stage(found, spec, [rows(10 * len(epochs), 10)])
        found.publish(spec, publication(staged, len(epochs)))
    elif sys.argv[2] == "reader":
        assert len(rows(read(topics.system, spec, topics.system.slice(spec)))) == 100
    elif sys.argv[2] == "check":
        access_check.check_readable(access, ["no-such-topic"])
    elif sys.argv[2] == "admin":
        clients.admin(access).list_topics(timeout=30)
    else:
        with clients.consumer(access) as lent:
            lent.client.list_topics(timeout=30)

use()
child = os.fork()
status = os.waitpid(child, 0)[1] if child else 0
use()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("client", CLIENTS)
def test_a_child_uses_clients_of_its_own_and_ends(kafka: Kafka, client: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, kafka.address, client, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux names threads in /proc")
@pytest.mark.parametrize("client", CLIENTS)
def test_no_idle_client_has_a_thread_that_could_hold_a_lock_over_a_fork(
    kafka: Kafka, client: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", PROGRAM, kafka.address, client, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")
