"""The keeper of a warm runner: ``python -m airflow_samza.spark.warm.keeper FOLDER``, settings on standard input.

It listens in its folder and serves one run at a time. It starts Spark when the first run needs one, lends it to runs,
cleans it between two of them, and ends when it was idle for too long, is old, has served enough runs, is large or not
well, or others need its memory (decision 77).
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

from airflow_samza.engine.heartbeat import RETRY_HINT
from airflow_samza.errors import StageLost
from airflow_samza.launch.java.container_limits import memory_rooms
from airflow_samza.launch.own_scratch import leave_scratch
from airflow_samza.launch.warm.messages import END, LEND, SERVE, STATE, receive, send
from airflow_samza.launch.warm.places import WarmPlace
from airflow_samza.launch.warm.settings import WarmRunners, why_not_kept, why_to_leave
from airflow_samza.runs.records import liveness
from airflow_samza.spark.warm.forker import Forker, fork_forker
from airflow_samza.spark.warm.lendable_spark import WarmSpark, is_dead, is_frozen, kill_java
from airflow_samza.spark.warm.run import WarmRun, failure_of

log = logging.getLogger("airflow_samza.warm")

LOOK_SECONDS = 0.5
HEALTH_SECONDS = 20.0
"""The time between two looks at an idle Spark: how large it is, and whether it is well."""
ANSWER_SECONDS = 10.0
"""The time limit of an answer of Spark, and of opening a server for a run."""
CLEAN_SECONDS = 30.0
STOP_SECONDS = 20.0
PATIENCE_SECONDS = 5.0
"""The time for which a request waits for a run that is just ending."""
MEMORY_SECONDS = 1.0
"""The time between two looks of an idle one at the memory that is left to others."""
SHRINK_SECONDS = 5.0
"""The time without a run after which it gives back memory that only a run needs."""
UNUSED_SECONDS = 60.0
"""The time for which one that was started ahead waits for its first run, which may begin on another host."""
FROZEN_SECONDS = 40.0
"""The time for which Java may be stopped before it is ended."""

STARTING, IDLE, BUSY, CLEANING, ENDING = "starting", "idle", "busy", "cleaning", "ending"


@dataclass
class _Work:
    """Something that Spark does on its own thread, and what follows."""

    future: Future[Any]
    what: str
    deadline: float
    then: Callable[[Any], None]


@dataclass
class _Request:
    """A run that asks to be served."""

    channel: socket.socket
    message: dict[str, Any]
    deadline: float


class Keeper:
    """The one process that decides which run the warm runner serves: who asks first, and one at a time."""

    def __init__(self, place: WarmPlace, settings: dict[str, Any], forker: Forker) -> None:
        self._place = place
        self._settings = settings
        self._bounds = WarmRunners(**settings["bounds"])
        self._forker = forker
        self._spark = WarmSpark(settings)
        self._thread = ThreadPoolExecutor(1, "spark")
        self._work: _Work | None = None
        self._next: deque[Callable[[], None]] = deque()
        self._is_wanted = self._is_up = self._is_small = False
        self._run: WarmRun | None = None
        self._waiting: list[_Request] = []
        self._served = 0
        self._started = self._since = time.monotonic()
        self._sized = self._looked_at_memory = 0.0
        self._frozen_since: float | None = None
        self._why_end = ""
        self._end_requested = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()

    # -- the loop ----------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Serve runs until it is time to end."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"{self._place.socket}.new")
        listener.listen(64)
        os.rename(f"{self._place.socket}.new", self._place.socket)  # who sees it can connect
        self._place.describe({key: self._settings[key] for key in ("root", "tenant", "master")})
        for source in (listener, self._forker.channel, self._woken):
            source.setblocking(source is self._forker.channel)
            self._selector.register(source, selectors.EVENT_READ)
        signal.signal(signal.SIGTERM, lambda *_: self._end_requested.set())
        while not self._is_over():
            for key, _ in self._selector.select(LOOK_SECONDS):
                if key.fileobj is listener:
                    self._accept(listener)
                elif key.fileobj is self._forker.channel:
                    self._run_has_ended()
                elif self._run is not None and key.fileobj is self._run.lease:
                    self._run_asks(self._run)
                else:
                    with suppress(OSError):
                        self._woken.recv(4096)
            self._look_after_wish()
            self._look_after_work()
            self._look_after_java()
            self._look_after_waiting()
            self._look_at_bounds()
        self._leave(listener)

    def _is_over(self) -> bool:
        if self._end_requested.is_set():
            self._end("it was told to")
            return True
        return bool(self._why_end) and self._run is None and self._work is None

    @property
    def _state(self) -> str:
        if self._why_end:
            return ENDING
        if self._run is not None:
            return CLEANING if self._run.has_ended else BUSY
        return STARTING if self._is_wanted and not self._is_up else IDLE

    # -- requests ----------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            channel, _ = listener.accept()
            channel.settimeout(ANSWER_SECONDS)
            message = receive(channel) or {}
            what = message.get("do")
            if what == SERVE:
                self._waiting.append(_Request(channel, message, time.monotonic() + PATIENCE_SECONDS))
                return
            if what == END:
                now = bool(message.get("now"))
                ends = now or self._state in (IDLE, STARTING, ENDING)
                send(channel, {"ends": ends})
                if ends:
                    self._end("it was asked to")
                    if now:
                        self._end_requested.set()
            elif what == STATE:
                send(channel, self._about())
            channel.close()

    def _look_after_waiting(self) -> None:
        """Serve the first that waits, or let it go elsewhere; one waits only for a run that is ending."""
        java = self._spark.java
        if self._waiting and java is not None and is_dead(java):
            self._end("Java has ended")
        is_well = java is None or not is_frozen(java)
        for request in list(self._waiting):
            if self._run is None and not self._why_end and is_well:
                self._waiting.remove(request)
                self._serve_run(request)
            elif self._why_end or not self._ends_soon() or time.monotonic() > request.deadline:
                self._waiting.remove(request)
                with suppress(OSError):
                    send(request.channel, {"busy": self._state})
                request.channel.close()

    def _ends_soon(self) -> bool:
        return self._run is not None and (self._run.has_ended or self._run.is_closed())

    def _serve_run(self, request: _Request) -> None:
        self._served += 1
        message = request.message
        message["settings"]["warm"] = f"{self._place.name}, run {self._served}, keeper {os.getpid()}"
        ours, theirs = socket.socketpair()
        pid = self._forker.start_run({name: message[name] for name in ("arguments", "settings", "environment")}, theirs)
        theirs.close()
        if pid is None:
            ours.close()
            request.channel.close()
            self._end("its forking process is gone")
            return
        self._run = WarmRun(pid, message["arguments"], request.channel, ours, self._place.log)
        log.info("serves %s: process %d, run %d", self._run.name, pid, self._served)
        self._selector.register(ours, selectors.EVENT_READ)
        with suppress(OSError, psutil.Error):
            send(request.channel, liveness.identity(pid))

    # -- one run -----------------------------------------------------------------------------------------------------

    def _run_asks(self, run: WarmRun) -> None:
        """Read what the run's process says on its lease: that it needs Spark, or that it is gone.

        Spark is lent to it once; where it is not up yet, when it is.
        """
        self._selector.unregister(run.lease)
        if (receive(run.lease) or {}).get("do") == LEND:
            self._start_spark()
            self._when_free(lambda: self._lend(run))

    def _lend(self, run: WarmRun) -> None:
        if not run.has_ended:
            run.was_lent = True
            self._do("lend", self._checked_lend, ANSWER_SECONDS, run.tell)

    def _checked_lend(self) -> dict[str, Any]:
        if not self._spark.is_healthy():
            raise StageLost("The warm runner's Spark has stopped.", hint=RETRY_HINT)
        return self._spark.lend()

    def _run_has_ended(self) -> None:
        said = receive(self._forker.channel)
        if said is None:
            self._selector.unregister(self._forker.channel)
            self._end("its forking process is gone")
            self._end_requested.set()
            return
        run = self._run
        if run is None:
            return
        if run.lease in self._selector.get_map():
            self._selector.unregister(run.lease)
        run.end(int(said["exit"]))
        log.info("%s has ended: exit code %d", run.name, int(said["exit"]))
        if run.was_lent and not self._why_end:
            self._when_free(lambda: self._do("clean", self._spark.clean, CLEAN_SECONDS, self._is_clean))
        else:
            self._is_clean("")

    def _is_clean(self, why: str) -> None:
        self._run, self._is_small = None, False
        self._since = time.monotonic()
        if why := why or why_not_kept(memory_rooms(), is_for_commands=not self._settings["tenant"]):
            self._end(why)

    # -- Spark -------------------------------------------------------------------------------------------------------

    def _start_spark(self) -> None:
        if not self._is_wanted:
            self._is_wanted = True
            began = time.monotonic()
            self._do("start", self._spark.start, 3600.0, lambda _: self._is_started(began))

    def _is_started(self, began: float) -> None:
        self._is_up = True
        self._since = time.monotonic()
        log.info("Spark is up after %.1f s", self._since - began)

    def _look_after_wish(self) -> None:
        """Start Spark for a run that is not here yet, where the run's plan says that it will need one."""
        if not self._why_end and self._place.wants_spark():
            self._start_spark()

    def _do(self, what: str, work: Callable[[], Any], seconds: float, then: Callable[[Any], None]) -> None:
        future = self._thread.submit(work)
        future.add_done_callback(lambda _: self._wake.send(b"."))
        self._work = _Work(future, what, time.monotonic() + seconds, then)

    def _when_free(self, start: Callable[[], None]) -> None:
        """Start something after what Spark does now."""
        self._next.append(start)
        self._start_next()

    def _start_next(self) -> None:
        while self._next and self._work is None:
            self._next.popleft()()

    def _look_after_work(self) -> None:
        work = self._work
        if work is not None and work.future.done():
            self._work = None
            error = work.future.exception()
            if error is not None:
                self._has_failed(work.what, error)
            else:
                work.then(work.future.result())
        elif work is not None and time.monotonic() > work.deadline:
            self._give_up(f"Spark does not answer ({work.what})")
        self._start_next()

    def _has_failed(self, what: str, error: BaseException) -> None:
        failure = failure_of(error, what, self._place)  # before the log gets it: it reads it
        log.error("%s failed", what, exc_info=error)
        self._next.clear()
        if self._run is not None:
            self._run.tell({"error": failure.to_dict()})
            self._run = None if self._run.has_ended else self._run
        self._end(f"{what} failed")

    def _look_after_java(self) -> None:
        """Notice a Java that is dead or frozen."""
        java = self._spark.java
        if self._work is None and self._is_up and (java is None or is_dead(java)):
            self._end("Java has ended")
        if java is None or not is_frozen(java):
            self._frozen_since = None
            return
        self._frozen_since = self._frozen_since or time.monotonic()
        if time.monotonic() - self._frozen_since > FROZEN_SECONDS:
            self._give_up("Java is frozen")

    def _end_unless(self, healthy: bool) -> None:
        if not healthy:
            self._end("Spark has stopped")

    def _give_up(self, why: str) -> None:
        kill_java(self._spark.java)
        if self._run is not None:
            self._run.tell({"error": StageLost(f"The warm runner's {why}.", hint=RETRY_HINT).to_dict()})
        self._work = None
        self._next.clear()
        self._end(why)
        self._end_requested.set()

    # -- the end -----------------------------------------------------------------------------------------------------

    def _look_at_bounds(self) -> None:
        if self._run is not None or self._work is not None or self._why_end:
            return
        now, bounds = time.monotonic(), self._bounds
        if self._served >= bounds.runs:
            self._end(f"it has served {self._served} runs")
        elif now - self._started > bounds.age:
            self._end(f"it is {now - self._started:.0f} s old")
        elif now - self._since > (idle := bounds.idle if self._served else min(bounds.idle, UNUSED_SECONDS)):
            self._end(f"it was idle for {idle:g} s")
        elif not os.path.exists(self._place.socket):
            self._end("its folder is gone")
        elif self._sized < self._since or now - self._sized > HEALTH_SECONDS:  # it looks at all processes of the host
            self._sized = now
            if (size := self._megabytes()) > bounds.memory:
                self._end(f"it takes {size} MiB")
            elif self._is_up:
                self._do("health check", self._spark.is_healthy, ANSWER_SECONDS, self._end_unless)
        elif self._is_up and not self._is_small and now - self._since > SHRINK_SECONDS:
            self._is_small = True
            self._do("shrink", self._spark.shrink, CLEAN_SECONDS, lambda _: None)
        elif now - self._looked_at_memory > MEMORY_SECONDS:
            self._looked_at_memory = now
            if why := why_to_leave(memory_rooms(), is_for_commands=not self._settings["tenant"]):
                kill_java(self._spark.java)  # its own end would take a second
                self._end(why)

    def _end(self, why: str) -> None:
        if not self._why_end:
            self._why_end = why
            log.info("ends: %s", why)
            with suppress(OSError):
                os.unlink(self._place.socket)

    def _leave(self, listener: socket.socket) -> None:
        listener.close()
        for request in self._waiting:
            request.channel.close()
        if self._run is not None:
            self._run.kill()
            self._run.end(-signal.SIGKILL)
        if self._is_up and self._spark.java is not None and not is_dead(self._spark.java):
            stopping = self._thread.submit(self._spark.stop)
            with suppress(Exception):
                stopping.result(STOP_SECONDS)
        kill_java(self._spark.java)
        self._forker.end()
        for one in (self._selector, self._wake, self._woken):
            one.close()
        self._place.remove(f"{self._why_end}; {self._served} runs")

    def _about(self) -> dict[str, Any]:
        return {
            "state": self._state,
            "pid": os.getpid(),
            "runs": self._served,
            "age": time.monotonic() - self._started,
            "since": time.time() - time.monotonic() + self._since,
            "megabytes": self._megabytes(),
            "run": self._run.name if self._run is not None else "",
        }

    def _megabytes(self) -> int:
        """Return the memory of this process and the one that forks, and of Spark with its Python workers."""
        return self._spark.megabytes() + sum(proportional_megabytes(pid) for pid in (os.getpid(), self._forker.pid))


def proportional_megabytes(pid: int) -> int:
    """Return the memory of a process, in which pages that n processes share count as one n-th; 0 when it is gone."""
    with suppress(psutil.Error):
        return int(getattr(psutil.Process(pid).memory_full_info(), "pss", 0)) >> 20 if pid else 0
    return 0


def main(arguments: list[str]) -> int:
    """Be the keeper of the folder that is named."""
    (folder,) = arguments
    settings = json.load(sys.stdin)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    Keeper(WarmPlace(folder), settings, fork_forker()).serve()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    logging.shutdown()
    leave_scratch()
    os._exit(code)  # a thread that waits for a Java that is gone must not keep it
