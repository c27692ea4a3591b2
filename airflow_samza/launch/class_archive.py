"""An archive of Spark's classes, which Java maps instead of loading them one by one: a local Spark starts sooner.

The setting ``[samza] class_archives`` names a folder of the host for them. An archive fits one Java, one Spark and one
class path; its name holds which, and its size in bytes, because Java crashes on a truncated one. Where none fits, Spark
starts without, and the runner has one made when it ends. A command makes it by hand, for instance for an image:
``python -m airflow_samza.launch.class_archive_maker FOLDER``. Starts of a local Spark map it, and a runner that ends
has it made.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_samza.errors import ConfigError, SamzaError
from airflow_samza.launch.java.installed_java import find_java
from airflow_samza.launch.masters import parse_master
from airflow_samza.launch.programs import submit_options, variables_set
from airflow_samza.launch.spark_versions import pyspark_home
from airflow_samza.private_folder import named_folder, planted_by

log = logging.getLogger("airflow_samza.runner")

VARIABLE = "AIRFLOW__SAMZA__CLASS_ARCHIVES"
"""The setting in the environment, for Airflow and for the command line."""

EXTRA_CLASS_PATH = "spark.driver.extraClassPath"

MAKER = "airflow_samza.launch.class_archive_maker"
"""The module that makes an archive, as a command."""

# An archive of another form than this code makes has another name.
_FORMAT = 1

ROOM_BYTES = 400_000_000
"""Bytes that have to be free: an archive takes half of it."""

_NOTE_SECONDS = 86_400.0
"""The time after a failure in which no archive is made."""

_OPTIONS_FROM = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_OPTION_KEYS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_OWN_WORD = re.compile(r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit|AutoCreateSharedArchive")


@dataclass(frozen=True)
class ClassArchive:
    """The archive that a Java would map now, whether it is there or not.

    ``place`` is a digest of the paths of Java and Spark, ``state`` of their content: of one place only the newest
    archive is of use.
    """

    folder: str
    place: str
    state: str
    java: str
    first_on_class_path: tuple[str, ...] = ()

    def find(self) -> str | None:
        """Return the path of the archive, if it is there and whole."""
        with suppress(OSError):
            for path in map(str, Path(self.folder).glob(f"{self.place}-{self.state}-*.jsa")):
                # Java runs its code.
                if path == self.path(os.path.getsize(path)) and planted_by(path) is None:
                    return path
        return None

    def path(self, size: int) -> str:
        """Return the path of an archive of so many bytes."""
        return os.path.join(self.folder, f"{self.place}-{self.state}-{size}.jsa")

    @property
    def note(self) -> str:
        """The file with the reason why it could not be made."""
        return os.path.join(self.folder, f"{self.place}-{self.state}.failed")

    def obstacle(self) -> str | None:
        """Return why none can be made here now, and the remedy, in one line; None: one can."""
        why = self._obstacle()
        return (
            None
            if why is None
            else f"No archive of Spark's classes is made in {self.folder} ([samza] class_archives): {why}"
        )

    def _obstacle(self) -> str | None:
        if any(letter in self.folder for letter in ":\"'\\"):
            return "Java takes no colon, quote or backslash in its path. Name another folder."
        try:
            os.makedirs(self.folder, exist_ok=True)
            named_folder(self.folder, may_be_roots=True)
        except ConfigError as error:
            return f"{error.sentence} {error.hint}"
        except OSError as error:
            return (
                f"it cannot be created ({error.strerror}). Create it for the user that runs stages, or name "
                "another folder."
            )
        if not os.access(self.folder, os.W_OK | os.X_OK):
            return "it cannot be written. Let the user that runs stages write there, or name another folder."
        if _base_archive(self.java) is None:
            return (
                f"the Java at {self.java} has no archive of its own classes. Let its owner run: {self.java} "
                "-Xshare:dump"
            )
        for first in self.first_on_class_path:
            if os.path.isdir(first) and os.listdir(first):
                return (
                    f"the folder {first} stands before Spark's jars on the class path, and Java makes none then "
                    "unless it is empty."
                )
        free = shutil.disk_usage(self.folder).free
        if free < ROOM_BYTES:
            return (
                f"{free // 1_000_000} MB are free there, and it takes {ROOM_BYTES // 1_000_000}. Make room, or "
                "name another folder."
            )
        with suppress(OSError):
            if time.time() - os.path.getmtime(self.note) < _NOTE_SECONDS:
                return Path(self.note).read_text(encoding="utf-8").strip()
        return None


def class_archive(folder: str, conf: Mapping[str, str] | None = None) -> ClassArchive:
    """Return the archive for the Java, the Spark and the class path that a session would have with these settings."""
    java = find_java()
    spark = os.environ.get("SPARK_HOME") or pyspark_home()
    first = [part for part in (conf or {}).get(EXTRA_CLASS_PATH, "").split(os.pathsep) if part]
    first.append(os.environ.get("SPARK_CONF_DIR") or os.path.join(spark, "conf"))
    program = Path(java.path).resolve()
    release = program.parents[1] / "release"
    state: list[Any] = [_FORMAT, str(program), java.version, _base_archive(java.path)]
    state.append(release.read_text(encoding="utf-8", errors="replace") if release.is_file() else "")
    jars = os.path.join(spark, "jars")
    with suppress(OSError):
        # In the order of the folder: it is that of the class path.
        state += [(name, *_size_and_time(os.path.join(jars, name))) for name in os.listdir(jars)]
    state += [(path, *_size_and_time(path)) for path in first[:-1] if os.path.isfile(path)]
    return ClassArchive(
        os.path.abspath(folder), _digest([java.path, spark, first]), _digest(state), java.path, tuple(first)
    )


def java_options(path: str) -> str:
    """Return the options by which Java maps an archive, silently if it does not fit, for Spark's launcher."""
    return f'"-XX:SharedArchiveFile={path}" -Xlog:cds=off -Xlog:cds+dynamic=off'


def has_own_word(conf: Mapping[str, str]) -> bool:
    """Return whether the user's own options of Java speak of archives: then they alone count."""
    return any(_OWN_WORD.search(text) for text in user_options(conf))


def user_options(conf: Mapping[str, str]) -> list[str]:
    """Return the texts in which a user may have given options of Java."""
    return [os.environ.get(name, "") for name in _OPTIONS_FROM] + [conf.get(key, "") for key in _OPTION_KEYS]


def configured(folder: str | None = None) -> str | None:
    """Return the folder that is given, or that the environment names; whole, as a runner works elsewhere."""
    place = folder or os.environ.get(VARIABLE)
    return os.path.abspath(os.path.expanduser(place)) if place else None


def session_archive(folder: str | None, master: str, conf: Mapping[str, str]) -> ClassArchive | None:
    """Return the archive that a session wants: for a Java that this process starts.

    The folder is that given, or the environment's.
    """
    folder = configured(folder)
    started_already = "PYSPARK_GATEWAY_PORT" in os.environ
    if not folder or started_already or not parse_master(master).is_local or has_own_word(conf):
        return None
    try:
        return class_archive(folder, conf)
    except (SamzaError, OSError) as error:  # Spark itself will report what is wrong with its Java
        log.debug("no archive of classes: %s", error)
        return None


@contextmanager
def archived_classes(archive: ClassArchive | None) -> Iterator[None]:
    """Let a Java that starts meanwhile map the archive; log a warning where there is none and none can be made."""
    path = archive.find() if archive is not None else None
    if archive is not None and path is None:
        obstacle = archive.obstacle()
        if obstacle is not None:
            log.warning("%s", obstacle)
    if path is None:
        yield
        return
    with suppress(OSError):
        os.utime(path)  # it is in use, and stays when archives are swept
    with variables_set(submit_options(java_options(path))):
        yield


def make_in_background(settings: Mapping[str, Any]) -> None:
    """Start a process that makes the archive with which the next Spark of a runner's settings starts sooner.

    Unless it exists or cannot be made; of many processes one does the work.
    """
    conf, nothing = settings["conf"], subprocess.DEVNULL
    try:
        archive = session_archive(settings.get("class_archives"), settings["master"], conf)
        if archive is None or archive.find() is not None or archive.obstacle() is not None:
            return
        command = [sys.executable, "-m", MAKER, archive.folder, "--in-background"]
        if conf.get(EXTRA_CLASS_PATH):
            command += ["--extra-class-path", conf[EXTRA_CLASS_PATH]]
        log.info(
            "An archive of Spark's classes is made in %s, in the background: the next Spark starts sooner",
            archive.folder,
        )
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, cwd="/")
    except OSError:
        log.warning("no archive of Spark's classes is made", exc_info=True)


def _base_archive(java: str) -> tuple[int, int] | None:
    """Return size and time of the archive of Java's own classes, upon which ours is built."""
    home = Path(java).resolve().parents[1]
    for place in ("lib", "bin"):
        with suppress(OSError):
            return _size_and_time(str(home / place / "server" / "classes.jsa"))
    return None


def _size_and_time(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, int(status.st_mtime)


def _digest(facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
