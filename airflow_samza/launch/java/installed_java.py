"""The Java that Spark will use, and the needs of both on this host, checked before Spark starts.

Spark's own errors about them are hard to read. The launcher asks before it starts a runner, and the runner before it
starts Spark.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_samza.errors import RuntimeMissing, StageFailed
from airflow_samza.launch.log_lines import innermost_cause, killed_by, most_informative_line
from airflow_samza.private_folder import scratch_folder

OLDEST = 17
"""The oldest Java that Spark 4 starts on."""

# Spark's launcher adds this module; trimmed Java runtimes come without it and then die with a line about module
# resolution.
NEEDED_MODULE = "jdk.incubator.vector"

INSTALL = (
    "Install Java 17 or newer (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install "
    "openjdk@17; Fedora: dnf install java-17-openjdk-headless) and set JAVA_HOME to its folder, or put its bin "
    "folder on PATH."
)

# A cold `java -version` takes under a second; on a machine under heavy load it has been seen to take twenty.
_VERSION_TIMEOUT_SECONDS = 60


_SAYS_NOTHING = "WARNING: Using incubator modules"
"""The line with which every Java of Spark's begins."""


_JAVA_ENDED = "JAVA_GATEWAY_EXITED"
"""PySpark's class of the error of a Java that has ended before it was up; the reason is in what Java has printed."""


def why_spark_does_not_start(error: BaseException, log: str) -> str:
    """Return the reason why Spark did not come up: from Java where it ended, else the innermost cause of the error.

    ``log`` is the path of the file that Java has printed to; it is read before the error itself is logged to it.
    """
    why = innermost_cause(str(error)) or f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if _JAVA_ENDED not in why:
        return why
    printed = Path(log).read_text(encoding="utf-8", errors="replace").splitlines() if os.path.isfile(log) else []
    return _why_java_ended(error, printed)


def _why_java_ended(error: BaseException, lines: Sequence[str]) -> str:
    """Return the reason why Java ended before it was up, from PySpark's error about it and what Java has printed.

    A signal is known by the exit code of the process, which PySpark keeps to itself, in a variable.
    """
    cause: BaseException | None = error
    while cause is not None:
        for frame, _ in traceback.walk_tb(cause.__traceback__):
            code = getattr(frame.f_locals.get("proc"), "returncode", None)
            killed = killed_by(code) if isinstance(code, int) else None
            if killed is not None:
                return f"Java was {killed}"
        cause = cause.__cause__ or cause.__context__
    # A log that has the error already, of an earlier start, says no more than the error.
    said = [line for line in lines if line.strip() and not line.startswith(_SAYS_NOTHING) and _JAVA_ENDED not in line]
    return most_informative_line(said) if said else "Java ended before it was up"


@dataclass(frozen=True)
class Java:
    """A Java that Spark can use: the executable, and its version."""

    path: str
    version: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java that Spark would start (JAVA_HOME first, then PATH).

    :class:`RuntimeMissing` when there is none, or a wrong one.
    """
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME")
    if home:
        path, named_by = str(Path(home) / "bin" / "java"), "JAVA_HOME"
        if not os.access(path, os.X_OK):
            raise RuntimeMissing(
                f"JAVA_HOME is {home}, but there is no Java at {path}, and Spark needs Java {OLDEST} or newer.",
                hint=INSTALL,
                java_home=home,
                path=path,
            )
    else:
        on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
        if on_path is None:
            raise RuntimeMissing(
                "There is no Java on this machine (JAVA_HOME is not set, PATH has no java), and Spark needs Java "
                f"{OLDEST} or newer.",
                hint=INSTALL,
            )
        path, named_by = on_path, "PATH"
    version, modules = _release(path)
    if _feature(version) < OLDEST:
        raise RuntimeMissing(
            f"The Java at {path} (from {named_by}) has version {version}, and Spark needs Java {OLDEST} or newer.",
            hint=INSTALL,
            path=path,
            version=version,
        )
    if modules and NEEDED_MODULE not in modules:
        raise RuntimeMissing(
            f"The Java at {path} (from {named_by}, version {version}) lacks the module {NEEDED_MODULE}, which Spark "
            "needs to start.",
            hint=f"It is a trimmed runtime. {INSTALL}",
            path=path,
            version=version,
            module=NEEDED_MODULE,
        )
    return Java(path, version)


def _release(path: str) -> tuple[str, frozenset[str]]:
    """Return version and modules from the ``release`` file, without a process, else the version from the program."""
    try:
        text = (Path(path).resolve().parent.parent / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    facts = dict(re.findall(r'^(\w+)="?(.*?)"?\s*$', text, re.MULTILINE))
    if facts.get("JAVA_VERSION"):
        return facts["JAVA_VERSION"], frozenset(facts.get("MODULES", "").split())
    try:
        done = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeMissing(f"The Java at {path} does not start: {error}.", hint=INSTALL, path=path) from error
    match = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    if match is None:
        shown, killed = (done.stderr or done.stdout).strip().splitlines(), killed_by(done.returncode)
        if killed is not None:
            raise StageFailed(
                f"Spark does not start: Java was {killed}",
                hint=f"{path} -version was to tell its version. Run the task again, on a host with more memory.",
                path=path,
            )
        raise RuntimeMissing(
            f"The Java at {path} does not tell its version; it says {(shown[0] if shown else 'nothing')!r}.",
            hint=INSTALL,
            path=path,
        )
    return match[1], frozenset()


def _feature(version: str) -> int:
    """Return the feature number of a version: 17 of ``17.0.15``, 8 of ``1.8.0_392``; 0 when there is none."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else 0


def check_scratch() -> None:
    """Reject a host without a folder for temporary files: :class:`~airflow_samza.errors.RuntimeMissing`."""
    try:
        scratch_folder()
    except OSError as error:
        raise RuntimeMissing(
            f"There is no folder for temporary files that can be written: {error.strerror or error}.",
            hint="In a container with a read-only root filesystem mount a volume at /tmp (of Kubernetes: an emptyDir), "
            "or set TMPDIR to a folder that can be written.",
            folder=os.environ.get("TMPDIR") or tempfile.gettempprefix(),
        ) from None


def check_user() -> None:
    """Reject a user without a name: Java finds none, and Spark ends with a NullPointerException."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise RuntimeMissing(
            f"The user id {os.geteuid()} has no entry in /etc/passwd, and Java starts no Spark without a user's name.",
            hint="Add one when the container starts, as the entrypoint of Airflow's own image does "
            "(on OpenShift /etc/passwd has to be writable by its group), or use a Spark Connect server, "
            "which needs no Java here.",
            user=os.geteuid(),
        ) from None
