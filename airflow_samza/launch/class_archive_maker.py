"""The maker of archives of Spark's classes (:mod:`airflow_samza.launch.class_archive`) (decisions 59 and 72).

A small Spark runs, and Java writes what it has loaded into a new folder; the file is renamed when it is complete. A
lock of the kernel lets one process of a host do the work; a process that dies releases it, and the next one removes its
files.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from airflow_samza.errors import ConfigError, RuntimeMissing, SamzaError
from airflow_samza.launch.class_archive import EXTRA_CLASS_PATH, MAKER, VARIABLE, ClassArchive, class_archive
from airflow_samza.launch.own_process import runner_environment

TRAINING_SECONDS = 3600.0
"""Half a minute on two idle cores; what takes so long never ends."""

_NICENESS = 10
"""Beside something that wants a whole core a tenth is left, so it ends on a busy machine, too."""

_UNUSED_SECONDS = 7 * 86_400.0
"""The time after which archives for Javas or Sparks elsewhere are deleted, since they were last mapped."""

# Appended to the class path behind Spark's jars: an archive that was made without them serves with them, too.
_BEHIND = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")

Train = Callable[[Path, str, int], None]
"""Makes the archive at a path, for an extra class path, while a lock (a descriptor) is held."""


def make(folder: str, *, extra_class_path: str = "", wait: bool = True, train: Train | None = None) -> str | None:
    """Return the path of the archive, and make it if needed. None: another process does, and ``wait`` is false.

    A failure is a SamzaError; a note of it keeps runners from trying again for a day.
    """
    archive = class_archive(folder, {EXTRA_CLASS_PATH: extra_class_path})
    if archive.find() is not None:
        return archive.find()
    if wait:  # a user asks for it: the cause of a former failure may be fixed
        with suppress(OSError):
            os.unlink(archive.note)
    obstacle = archive.obstacle()
    if obstacle is not None:
        raise ConfigError(obstacle, key="class_archives", value=folder)
    with _locked(os.path.join(archive.folder, f"{archive.place}.lock"), wait) as lock:
        if lock is None:
            return None
        path = archive.find()
        if path is None:
            try:
                path = _new_archive(archive, extra_class_path, lock.fileno(), train or _train)
            except (SamzaError, OSError) as error:
                why = f"{error.facts['why']}. {error.hint}" if isinstance(error, SamzaError) else f"{error}."
                with suppress(OSError):
                    Path(archive.note).write_text(f"{why}\n", encoding="utf-8")
                raise
        return path


def _new_archive(archive: ClassArchive, extra_class_path: str, lock: int, train: Train) -> str:
    beginning = f".making-{archive.place}-"
    for name in os.listdir(archive.folder):
        if name.startswith(beginning):  # of a maker that died: one that lives would hold the lock
            shutil.rmtree(os.path.join(archive.folder, name), ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=beginning, dir=archive.folder, ignore_cleanup_errors=True) as work:
        new = Path(work, "new.jsa")
        train(new, extra_class_path, lock)
        with new.open("rb") as written:
            os.fsync(written.fileno())
        os.chmod(new, 0o444)
        path = archive.path(new.stat().st_size)
        os.replace(new, path)
    _sweep(archive, path)
    return path


def _sweep(archive: ClassArchive, spare: str) -> None:
    """Remove older archives and notes of the same place, and those that were not used for long."""
    for name in os.listdir(archive.folder):
        path = os.path.join(archive.folder, name)
        if path == spare or not re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]{12}(-\d+\.jsa|\.failed)", name):
            continue
        with suppress(OSError):
            if name.startswith(f"{archive.place}-") or time.time() - os.path.getmtime(path) > _UNUSED_SECONDS:
                os.unlink(path)


def _train(new: Path, extra_class_path: str, lock: int) -> None:
    """Run Spark in a process, which holds the lock, too, in case that this one is killed."""
    environment = {name: value for name, value in runner_environment("").items() if name not in (VARIABLE, *_BEHIND)}
    command = [sys.executable, "-m", "airflow_samza.spark.class_training", str(new), extra_class_path]
    output_file = new.with_suffix(".log")
    with output_file.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=new.parent,
            env=environment,
            pass_fds=(lock,),
        )
        try:
            code = process.wait(TRAINING_SECONDS)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
    if code != 0 or not new.exists():
        why = (
            f"it took more than {TRAINING_SECONDS:.0f} s"
            if code == -1
            else reason(output_file.read_text(encoding="utf-8", errors="replace"))
        )
        raise RuntimeMissing(
            f"Java made no archive of Spark's classes: {why}.",
            hint=f"Fix it, and try: {sys.executable} -m {MAKER} {new.parents[1]}",
            why=why,
        )


def reason(output: str) -> str:
    """Return the line with the reason, of the output of Java and Spark."""
    lines = [line.strip().rstrip(".") for line in output.splitlines() if line.strip()]
    for words in (r"^Cannot |^Unable to (?!use)|unsupported|No space left", r"Error\b|Exception\b|^Unable"):
        matches = [line for line in lines if re.search(words, line)]
        if matches:
            return matches[-1][:300]
    return lines[-1][:300] if lines else "it says nothing"


@contextmanager
def _locked(path: str, wait: bool) -> Iterator[BinaryIO | None]:
    """Hold the lock, and yield its file; None: another process has it. Without locks the rename alone decides."""
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield None
            return
        except OSError:
            pass
        yield file


def _step_back() -> None:
    """Run with lower priority than all else on this machine."""
    os.nice(_NICENESS)
    with suppress(OSError):  # else Linux weighs this session, as a whole, like any other
        Path("/proc/self/autogroup").write_text(str(_NICENESS))


def main(arguments: Sequence[str]) -> int:
    """Return the command: 0 when the archive is there, or another process is making it."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {MAKER}",
        description="Makes the archive of Spark's classes with which a local Spark starts sooner: once per host, Java "
        "and Spark.",
    )
    parser.add_argument(
        "folder", nargs="?", default=os.environ.get(VARIABLE), help=f"where it lies; else as {VARIABLE} says"
    )
    parser.add_argument("--extra-class-path", default="", metavar="PATH", help=f"as {EXTRA_CLASS_PATH} has it")
    parser.add_argument(
        "--in-background", action="store_true", help="behind all else that runs here, and only if nobody else makes it"
    )
    options = parser.parse_args(arguments)
    if not options.folder:
        parser.error(f"name a folder, or set {VARIABLE}")
    if options.in_background:
        _step_back()
    began = time.monotonic()
    try:
        path = make(options.folder, extra_class_path=options.extra_class_path, wait=not options.in_background)
    except (SamzaError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    if path is not None:
        print(f"{path}: {os.path.getsize(path) / 1e6:.0f} MB, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
