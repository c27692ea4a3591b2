"""Run the tests of ``make test``, ``make test-all`` or ``make unit``: those without servers first, then those on servers.

    python -m tests                 what each change runs
    python -m tests --rest          the others, but the nightly ones
    python -m tests --unit          those without servers, of what each change runs
    python -m tests --continue      those that the last run has not passed; also with --rest and --unit
    python -m tests -- -k join      further arguments are pytest's

A line twice a minute says how far the tests are and which time is left. Where at most five have failed, each runs once
more, alone, behind the others: one that passes then is printed as flaky, with its first traceback, and does not fail the
run. Skipped tests are counted by their reasons. The last line has the counts and the name of the log; ``build/tests`` has the log and the outcomes by test.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO

import psutil

from tests.support import outcomes, server_files
from tests.support.outcomes import Outcome

REPORTS = Path("build") / "tests"
ON_SERVERS = " or ".join(server_files.SERVERS)
FAILED, INTERRUPTED, NO_TESTS = 1, 2, 5
"""Exit codes of pytest; the last one where no test is selected, as ``-k`` may leave none of one part."""
TRIED_AGAIN = 5
"""So many failed tests run once more; of more of them the cause is no accident."""
PLUGINS = [f"-ptests.support.{name}" for name in ("outcomes", "progress", "server_files")]
IN_ORDER = ["--no-loadscope-reorder"]
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Variables with which a Java starts in three quarters of the processor time: its tests end before more would pay."""

MEMORY, OWNER = Path("/dev/shm"), ".owner"
"""The place of tests' files, and the file in their folder that names the process of the run."""
ENOUGH = 12 << 30
"""Bytes of memory that have to be free for the tests' files to lie there; they take a tenth of it."""


def main(arguments: Sequence[str]) -> int:
    """Run the parts; return 0 if all tests have passed, few of them in their second try."""
    parser = argparse.ArgumentParser(
        prog="python -m tests", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--rest", action="store_true", help="run what make test leaves out, but the nightly tests")
    part.add_argument("--unit", action="store_true", help="run the tests without servers only")
    parser.add_argument("--continue", dest="known", action="store_true", help="leave out what the last run has passed")
    parser.add_argument("--workers", default="2", help="processes for tests without servers, which use a core each")
    parser.add_argument(
        "--server-workers", default="3", help="processes for tests on servers, which wait a fifth of the time"
    )
    options, more = parser.parse_known_args(arguments)
    started = time.monotonic()
    run = Run("rest" if options.rest else "unit" if options.unit else "test", options.known)
    if options.rest:
        run.environment["EXTENDED"] = "1"
    more = [argument for argument in more if argument != "--"]
    selected = f"not nightly and {'extended' if options.rest else 'not extended'}"
    with _files_in_memory() as memory, nullcontext() if options.unit else _archive_maker() as maker:
        marks = ["-m", f"{selected} and not ({ON_SERVERS})", "-n", options.workers, *IN_ORDER]
        code = run.tests([*marks, *more], memory)
        if maker is not None and code != INTERRUPTED and (files := run.files_on_servers()):
            maker.wait()
            marks = ["-m", f"{selected} and ({ON_SERVERS})", "-n", options.server_workers, *IN_ORDER]
            code = max(code, run.tests([*marks, *more, *files], QUICK_JAVA))
    flaky = run.try_again() if code == FAILED else []
    for outcome in flaky:
        print(f"{outcome.traceback}\nflaky: {outcome.test}", flush=True)
    for line in run.skipped():
        print(line)
    print(run.last_line(flaky, time.monotonic() - started), flush=True)
    return int(run.failed() != []) if flaky else code


class Run:
    """A run of tests in several processes of pytest: their outcomes, and what they print, in files by its name."""

    def __init__(self, name: str, known: bool) -> None:
        REPORTS.mkdir(parents=True, exist_ok=True)
        self._log, self._outcomes, before = (REPORTS / f"{name}{end}" for end in (".log", ".jsonl", "-before.jsonl"))
        self._known = outcomes.passed(outcomes.read(self._outcomes)) if known else []
        self._on_servers = REPORTS / f"{name}-on-servers.txt"
        for file in (self._log, self._outcomes, before, self._on_servers):
            file.write_bytes(b"")
        for outcome in self._known:
            outcomes.write(self._outcomes, outcome)
            outcomes.write(before, outcome)
        self.environment = {
            outcomes.WRITTEN: str(self._outcomes),
            outcomes.LEFT_OUT: str(before),
            server_files.WRITTEN: str(self._on_servers),
        }

    def tests(self, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run pytest with further variables; return its exit code, 0 where it has found no test."""
        code = _pytest(arguments, self._log, {**self.environment, **environment})
        return 0 if code == NO_TESTS else code

    def files_on_servers(self) -> list[str]:
        """Return the files that have tests on servers, of those that the last tests were collected from."""
        return self._on_servers.read_text(encoding="utf-8").splitlines()

    def failed(self) -> list[Outcome]:
        """Return the tests that have failed, in their last try."""
        return [outcome for outcome in outcomes.read(self._outcomes).values() if outcome.outcome == "failed"]

    def skipped(self) -> list[str]:
        """Return a line for each reason for which tests were skipped, such as a server that this machine cannot start."""
        known = outcomes.read(self._outcomes).values()
        reasons = Counter(outcome.reason for outcome in known if outcome.outcome == "skipped")
        return [f"{count:,} skipped: {reason}" for reason, count in reasons.items()]

    def try_again(self) -> list[Outcome]:
        """Run failed tests once more, each alone, unless they are many; return the first outcomes of those that pass."""
        failed = self.failed()
        if len(failed) > TRIED_AGAIN:
            return []
        print(f"{len(failed)} failed; each runs once more, alone", flush=True)
        return [outcome for outcome in failed if self.tests([outcome.test], {}) == 0]

    def last_line(self, flaky: Sequence[Outcome], seconds: float) -> str:
        """Return the counts of a run that has taken so many seconds, its commit, and where the log is."""
        counts = Counter(outcome.outcome for outcome in outcomes.read(self._outcomes).values())
        figures = [f"{counts[outcome]:,} {outcome}" for outcome in ("passed", "failed", "skipped")]
        figures += [f"{len(flaky)} flaky"] if flaky else []
        figures += [f"{len(self._known):,} of them in runs before"] if self._known else []
        commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
        minutes, rest = divmod(round(seconds), 60)
        where = f" at {commit.stdout.strip()}" if commit.returncode == 0 else ""
        return f"{', '.join(figures)}{where} in {minutes} min {rest} s; the log: {self._log}"


@contextmanager
def _files_in_memory() -> Iterator[dict[str, str]]:
    """Return the variables that have tests write into memory, where there is enough of it.

    On a disk they wait for it half of their time: each run syncs its records, and tests make and delete whole roots.
    Servers and the containers that tests make of namespaces have a disk, as users' have. What a run has left in memory
    that was killed is removed by the next one.
    """
    for owner in MEMORY.glob(f"t-*/{OWNER}"):
        if not psutil.pid_exists(int(owner.read_text() or 0)):
            shutil.rmtree(owner.parent, ignore_errors=True)
    if (
        not os.access(MEMORY, os.W_OK | os.X_OK)
        or min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) < ENOUGH
        or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    ):
        yield {}
        return
    folder = tempfile.mkdtemp(prefix="t-", dir=MEMORY)
    Path(folder, OWNER).write_text(str(os.getpid()))
    Path(folder).chmod(0o711)  # as that of /tmp, for a PostgreSQL of tests, which root runs as another user
    try:
        yield {"TMPDIR": folder}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _pytest(arguments: Sequence[str], log: Path, environment: dict[str, str]) -> int:
    """Run pytest with further variables; what it prints goes to the terminal and to the log."""
    command = [sys.executable, "-m", "pytest", "-q", *PLUGINS, *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **environment}
    )
    with log.open("ab") as copy:
        # A thread: a server that a test has left behind may hold the pipe open when pytest has ended.
        reader = threading.Thread(target=_copy, args=[process.stdout, copy], daemon=True)
        reader.start()
        try:
            process.wait()
        except KeyboardInterrupt:  # pytest has it, too, and prints its summary
            process.wait()
        reader.join(10)
    return process.returncode


def _copy(lines: IO[bytes], log: IO[bytes]) -> None:
    with lines:
        for line in lines:
            sys.stdout.buffer.write(line)
            sys.stdout.flush()
            with suppress(ValueError):  # closed: pytest has ended
                log.write(line)


def _archive_maker() -> subprocess.Popen[bytes]:
    """Start to make the archive of Spark's classes, if there is none; without it, each Spark starts slower."""
    folder = Path(sys.prefix) / "class-archives"
    return subprocess.Popen([sys.executable, "-m", "airflow_samza.launch.class_archive_maker", str(folder)])


if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parents[1])
    sys.exit(main(sys.argv[1:]))
