"""A trigger asks Airflow through the triggerer's own comms, and learns there that a user has ended its task."""

from __future__ import annotations

import asyncio
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from airflow.jobs.triggerer_job_runner import TriggerCommsDecoder
from airflow.sdk.execution_time import comms, task_runner

from airflow_samza.provider.airflow_versions import triggers_hear_of_kills
from airflow_samza.provider.producer_tasks import ProducerTasks
from airflow_samza.provider.triggers.runs import RunTrigger
from airflow_samza.systems.filesystems.filesystem import Filesystem


@dataclass
class Task:
    """The task of a trigger, as a triggerer has it."""

    dag_id: str = "views"
    run_id: str = "manual"
    task_id: str = "page-views"
    map_index: int = -1


class Asking(RunTrigger):
    """A trigger whose looks ask Airflow for the state of a task."""

    def __init__(self, root: Path) -> None:
        super().__init__(root=str(root), poll_interval=0.01)
        self.looks: list[dict[str, str | None]] = []
        self.killed = False

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        self.looks.append(ProducerTasks("views", "manual", {"stage": "page-views"}).states())
        return None

    async def on_kill(self) -> None:
        self.killed = True


def supervise(connection: socket.socket, state: str) -> None:
    """Answer a triggerer's questions for states, as the process above it does."""
    with connection, connection.makefile("rb") as stream:
        while len(head := stream.read(4)) == 4:
            number = msgspec.msgpack.decode(stream.read(int.from_bytes(head, "big")))[0]
            result: Any = comms.TaskStatesResult(task_states={"manual": {"page-views": state}})
            answer: Any = comms._ResponseFrame(id=number, body=result.model_dump())
            connection.sendall(answer.as_bytes())


async def watch(trigger: RunTrigger, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a trigger look three times, and cancel it as a triggerer does."""
    ours, above = socket.socketpair()
    threading.Thread(target=supervise, args=(above, state), daemon=True).start()
    reader, writer = await asyncio.open_connection(sock=ours)
    decoder: Any = TriggerCommsDecoder
    channel = decoder(async_writer=writer, async_reader=reader, socket=ours)
    if hasattr(channel, "start_reader"):  # since Airflow 3.2
        await channel.start_reader()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", channel, raising=False)
    trigger.task_instance = Task()  # type: ignore[assignment]
    watching = asyncio.ensure_future(anext(trigger.run()))
    while len(getattr(trigger, "looks", ())) < 3 and not watching.done():
        await asyncio.sleep(0.005)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    if hasattr(channel, "_reader_task"):
        channel._reader_task.cancel()
        await asyncio.gather(channel._reader_task, return_exceptions=True)
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(("state", "by_a_user"), [("failed", True), ("success", True), ("deferred", False)])
def test_looks_ask_airflow_and_a_user_who_ends_the_task_ends_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, by_a_user: bool
) -> None:
    trigger = Asking(tmp_path)
    asyncio.run(asyncio.wait_for(watch(trigger, state, monkeypatch), 60))
    assert trigger.looks[:3] == [{"stage": state}] * 3
    # Where Airflow calls on_kill by itself, nobody else may.
    assert trigger.killed == (by_a_user and not triggers_hear_of_kills())
