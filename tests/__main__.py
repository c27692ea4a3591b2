"""Run the tests of ``make test``, ``make test-all`` or ``make unit``: those without servers first, then those on servers.

    python -m tests                 what each change runs
    python -m tests --rest          the others, but the nightly ones
    python -m tests --unit          those without servers, of what each change runs
    python -m tests -- -k join      further arguments are pytest's

A line twice a minute says how far the tests are and which time is left. The last line has the counts and the name of
the log; ``build/tests`` has the log and a JUnit file of each part.
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
import xml.etree.ElementTree as xml
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

REPORTS = Path("build") / "tests"
SERVERS = "spark or airflow or browser or hdfs or kafka"
INTERRUPTED = 2
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Variables with which a Java starts in three quarters of the processor time: its tests end before more would pay."""
NO_TESTS = 5
"""Exit code of pytest where no test is selected, as ``-k`` may leave none of one part."""

MEMORY = Path("/dev/shm")
ENOUGH = 12 << 30
"""Bytes of memory that have to be free for the tests' files to lie there; they take a tenth of it."""


def main(arguments: Sequence[str]) -> int:
    """Run the parts; return 0 if all tests have passed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--rest", action="store_true", help="run what make test leaves out, but the nightly tests")
    part.add_argument("--unit", action="store_true", help="run the tests without servers only")
    parser.add_argument("--workers", default="2", help="processes for tests without servers, which use a core each")
    parser.add_argument(
        "--server-workers", default="3", help="processes for tests on servers, which wait a fifth of the time"
    )
    options, more = parser.parse_known_args(arguments)
    more = [argument for argument in more if argument != "--"]
    started = time.monotonic()
    REPORTS.mkdir(parents=True, exist_ok=True)
    log = REPORTS / ("rest.log" if options.rest else "unit.log" if options.unit else "test.log")
    log.unlink(missing_ok=True)
    selected = f"not nightly and {'extended' if options.rest else 'not extended'}"
    parts = [
        ("without-servers", f"{selected} and not ({SERVERS})", options.workers, []),
        (
            "on-servers",
            f"{selected} and ({SERVERS})",
            options.server_workers,
            ["--ignore", "airflow_samza", "--ignore", "tests/unit"],
        ),
    ]
    codes, counts = [], Counter[str]()
    budgets = {"EXTENDED": "1"} if options.rest else {}
    with _files_in_memory() as memory:
        for name, marks, workers, where in parts[:1] if options.unit else parts:
            if name == "on-servers":
                _archive_classes()
            report = REPORTS / f"{log.stem}-{name}.xml"
            report.unlink(missing_ok=True)
            command = ["-m", marks, "-n", workers, "--no-loadscope-reorder", f"--junitxml={report}", *where, *more]
            codes.append(_pytest(command, log, {**budgets, **(QUICK_JAVA if name == "on-servers" else memory)}))
            counts += _outcomes(report)
            if codes[-1] == INTERRUPTED:
                break
    failed = [code for code in codes if code not in (0, NO_TESTS)]
    figures = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in ("passed", "failed", "skipped"))
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    print(f"{figures} in {minutes} min {seconds} s; the log: {log}", flush=True)
    return failed[0] if failed else 0


@contextmanager
def _files_in_memory() -> Iterator[dict[str, str]]:
    """Return the variables that have tests write into memory, where there is enough of it.

    On a disk they wait for it half of their time: each run syncs its records, and tests make and delete whole roots.
    Servers and the containers that tests make of namespaces have a disk, as users' have.
    """
    if (
        not os.access(MEMORY, os.W_OK | os.X_OK)
        or min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) < ENOUGH
        or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    ):
        yield {}
        return
    folder = tempfile.mkdtemp(prefix="t-", dir=MEMORY)
    Path(folder).chmod(0o711)  # as that of /tmp, for a PostgreSQL of tests, which root runs as another user
    try:
        yield {"TMPDIR": folder}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _pytest(arguments: Sequence[str], log: Path, environment: dict[str, str]) -> int:
    """Run pytest with further variables; what it prints goes to the terminal and to the log."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.progress", *arguments]
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
    for line in lines:
        sys.stdout.buffer.write(line)
        sys.stdout.flush()
        with suppress(ValueError):  # closed: pytest has ended
            log.write(line)


def _archive_classes() -> None:
    """Make the archive of Spark's classes, if there is none; without it, each Spark starts slower."""
    folder = Path(sys.prefix) / "class-archives"
    subprocess.run([sys.executable, "-m", "airflow_samza.launch.class_archive_maker", str(folder)], check=False)


def _outcomes(report: Path) -> Counter[str]:
    """Return the number of tests by outcome; an error of a fixture is a failed test."""
    if not report.exists():
        return Counter()
    counts = Counter[str]()
    for suite in xml.parse(report).getroot().iter("testsuite"):
        numbers = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
        counts["failed"] += numbers["failures"] + numbers["errors"]
        counts["skipped"] += numbers["skipped"]
        counts["passed"] += numbers["tests"] - numbers["failures"] - numbers["errors"] - numbers["skipped"]
    return counts


if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parents[1])
    sys.exit(main(sys.argv[1:]))
