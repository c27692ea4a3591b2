"""The user's code on its way to the stage runner and its Spark workers: one zip, named after what the code needs.

A Dag bundle is on the path of the Airflow task alone, and it may change while a run is on. So what the task imported is
packed once, kept in the run's folder, and everything that runs the stage imports from there. The submission packs it;
the stage runner and Spark's workers import from it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import logging
import os
import re
import shutil
import stat
import sys
import time
import uuid
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import NamedTuple

from airflow_samza.application.code_digest import user_sources
from airflow_samza.application.rejections import listed
from airflow_samza.errors import ConfigError
from airflow_samza.planner.stage_code import ShippedDigests
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_code import RunCode
from airflow_samza.systems.filesystems.filesystem import TEMPORARY_PREFIX, Filesystem
from airflow_samza.systems.filesystems.local_copies import local_copy

log = logging.getLogger(__name__)

# Files of a package that are data for its code (templates, SQL, small models) travel with it; larger ones belong in
# archives=.
LARGEST_DATA_FILE = 10 * 1024 * 1024

_BLOCK = 1024 * 1024


class Entry(NamedTuple):
    """A file that travels, as it was when it was looked at; equal ones have equal content.

    ``name`` is its name in the zip, "" for the content of a zip or wheel. A folder into which nobody has looked has a
    slash behind its name. ``state`` are inode, size and times (in nanoseconds), by which ``git status`` compares files,
    too, and of a file that has just changed also when it was looked at. ``mode`` has the permissions of the folders
    around it, too.
    """

    name: str
    path: str
    state: tuple[int, ...]
    mode: int
    is_linked: bool


Entries = tuple[Entry, ...]

_IN_A_FUNCTION = re.compile(rb"^[ \t]+(?:from[ \t]+(\w[\w.]*)[ \t]+import\b|import[ \t]+(\w[\w., \t]*))", re.MULTILINE)
"""An import statement that is not the first thing on its line: most often one in a function."""

_LEFT_OUT = frozenset(
    {"__pycache__", ".git", ".venv", "venv", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)

_SHOWN = 5
"""Names of files that stay here in a line of the log."""

_FOR_OTHERS = 0o044
"""The permissions of a file by which others than its owner read it."""

_RACY = 2_000_000_000
"""Nanoseconds after a change in which a file may change again and keep its times."""

# The zip's bytes must depend on the content alone, so every entry carries the oldest date that a zip can hold.
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class UserCode:
    """The files of an application's code, as they were at a time (``at``, monotonic seconds)."""

    module: ModuleType
    origin: Path
    entries: Entries
    at: float
    staying: Sequence[str]
    """Names of files and folders among these that do not travel."""

    @functools.cached_property
    def digests(self) -> ShippedDigests:
        """The digests of what travels.

        That of data is of the files that are no modules beside the application's; "" where there are none.
        """
        inside = _inside(self.origin)
        beside = [one for one in self.entries if not (one.name.endswith(".py") and one.path.startswith(inside))]
        whole = _digest_of(tuple(_needed(self.module, self.origin, self.entries)))
        return ShippedDigests(_digest_of(tuple(beside)) if beside else "", whole)


def ship_code(files: Filesystem, run: RunFolder, code: UserCode) -> RunCode:
    """Pack an application's code into the run's folder; return where it lies, and where it was packed from."""
    if code.staying:
        log.info(
            "Of the application's folder, %d files and folders do not travel to Spark: %s. Names that begin with a "
            "dot, links to outside and files that others may not read stay here. A stage reads what lies in the folder "
            "itself under a name without a dot, and has the permissions of the application's module (chmod).",
            len(code.staying),
            listed(code.staying, _SHOWN),
        )
    path = f"{run.code}/{code.digests.whole}.zip"
    if not files.exists(path):
        files.put_if_absent(path, pack(code.entries))
    return RunCode(path=path, origin=str(code.origin))


def _needed(module: ModuleType, origin: Path, entries: Entries) -> list[Entry]:
    """Return the files by which code is told from other code: those that the application imports, and all data.

    A module that nothing imports is in the zip and does not count, unless code imports modules by names that it makes.
    """
    sources = user_sources(module.__name__)
    if is_library(origin) or any("importlib" in text or "__import__" in text for text in sources.values()):
        return list(entries)
    names = {f"{name.replace('.', '/')}{end}" for name in sources for end in (".py", "/__init__.py")}
    inside = _inside(origin)
    return [
        entry
        for entry in entries
        if entry.name in names or not entry.name.endswith(".py") or not entry.path.startswith(inside)
    ]


@functools.lru_cache(maxsize=4)
def _digest_of(entries: Entries) -> str:
    digest = hashlib.sha256()
    for entry in sorted(entries):
        content = _content(entry)
        digest.update(f"{entry.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def ship_package(files: Filesystem, run: RunFolder, name: str = "airflow_samza", suffix: str = ".zip") -> str:
    """Pack this package itself into the run's folder, for hosts that do not have it, or another version.

    The zip's path from the root, with a ``name``. ``suffix`` is how it must end for Spark to take the file as a
    program.
    """
    data = packed_package()
    path = f"{run.code}/{name}-{hashlib.sha256(data).hexdigest()[:16]}{suffix}"
    files.put_if_absent(path, data)
    return path


@functools.lru_cache(maxsize=1)
def packed_package() -> bytes:
    """Return this package as a zip, which Python runs as a driver.

    Read once, so that one process never ships two versions of it.
    """
    folder = Path(__file__).resolve().parents[2]
    package = _travelling(_files_of(folder, "airflow_samza"), folder, 0, [])
    return pack((*package, *_entries("__main__.py", str(folder / "airflow_samza/spark/driver_program.py"))))


def ship_archive(files: Filesystem, run: RunFolder, archive: str) -> str:
    """Copy an archive into the run's folder under the digest of its content.

    Its path from the root, with the ``#alias`` that it had.
    """
    named, hash_sign, alias = archive.partition("#")
    source = Path(named).expanduser().resolve()
    if not source.is_file():
        raise ConfigError(
            f"There is no archive {source}, which archives names.",
            hint="Give paths of archives (.zip, .tar.gz, .tgz, .jar), each with #name when it is to be unpacked under "
            "that name.",
            key="archives",
            value=archive,
        )
    digest = hashlib.sha256()
    with source.open("rb") as content:
        for block in iter(lambda: content.read(_BLOCK), b""):
            digest.update(block)
    path = f"{run.code}/{digest.hexdigest()[:16]}-{source.name}"
    if not files.exists(path):
        copy = f"{run.code}/{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        files.make_dirs(run.code)
        with source.open("rb") as content, files.open_output(copy, durable=False) as output:
            shutil.copyfileobj(content, output, _BLOCK)
        files.rename(copy, path)
    # Spark unpacks under the name that stands behind the sign, else under the file's own, which here has the digest in
    # it.
    return f"{path}#{alias if hash_sign else source.name}"


def archive_here(files: Filesystem, archive: str) -> str:
    """Return a shipped archive as Spark on this machine takes it: a whole path with its ``#alias``."""
    path, _, alias = archive.partition("#")
    return f"{local_copy(files, path)}#{alias}"


def code_of(module: ModuleType, py_modules: Iterable[str] = ()) -> UserCode:
    """Return the folder of an application's module, and all files that it needs from there.

    That is the whole top-level package of the module, every module or package beside it that was imported with it, and
    those that their functions import when they are called; and ``py_modules``: further modules, packages, zips or
    wheels, by path. Of all these, what is private does not travel.
    """
    file, now = getattr(module, "__file__", None), time.monotonic()
    if module.__name__ == "__main__" or file is None:
        raise ConfigError(
            f"The application is in {module.__name__!r}, which no other process can import.",
            hint="Move it into a module of its own, such as pipelines/page_views.py, "
            "and name it pipelines.page_views:page_views.",
            key="application",
            value=module.__name__,
        )
    depth = module.__name__.count(".") + (1 if Path(file).name == "__init__.py" else 0)
    origin = Path(file).resolve().parents[depth]
    tops, is_installed = {module.__name__.partition(".")[0]}, is_library(origin)
    if not is_installed:
        tops |= {name for name in _imported_from(origin) if name.partition(".")[0] != "airflow_samza"}
    files: dict[str, Entries] = {}
    staying: list[str] = []
    readers = os.stat(file).st_mode & _FOR_OTHERS
    waiting = sorted(tops, reverse=True)
    while waiting:
        top = waiting.pop()
        if top in files:
            continue
        files[top] = _travelling(_files_of(origin, top), origin, readers, staying)
        if not is_installed:
            waiting += sorted(_imported_later(files[top]).difference(files), reverse=True)
    entries = (*(entry for top in sorted(files) for entry in files[top]), *_more_code(py_modules, staying))
    return UserCode(module, origin, entries, now, staying)


def _more_code(paths: Iterable[str], staying: list[str]) -> list[Entry]:
    """Return the files of ``py_modules``: a ``.py`` file, a package's folder, or the content of a zip or wheel."""
    entries: list[Entry] = []
    for text in paths:
        path = Path(text).expanduser().resolve()
        if not path.exists():
            raise ConfigError(
                f"There is no {path}, which py_modules names.",
                hint="Give paths of Python files, package folders, zips or wheels.",
                key="py_modules",
                value=text,
            )
        if path.is_dir():
            entries += _travelling(_files_of(path.parent, path.name), path, path.stat().st_mode & _FOR_OTHERS, staying)
        else:
            entries += _entries("" if zipfile.is_zipfile(path) else path.name, str(path))
    return entries


def _travelling(entries: Iterable[Entry], folder: Path, readers: int, staying: list[str]) -> Entries:
    """Return the files of a folder that leave this host; the names of all others are added to ``staying``.

    These are what has a name that begins with a dot, a link to outside the folder, and what some of those may not read
    who read its code (``readers``, as permissions): such files hold passwords and keys. A module that was imported
    travels in any case: no stage runs without it.
    """
    travelling, inside = [], _inside(folder)
    for entry in entries:
        stays = (
            entry.name.endswith("/")
            or entry.name.rpartition("/")[2].startswith(".")
            or readers & ~entry.mode
            or (entry.is_linked and not os.path.realpath(entry.path).startswith(inside))
        )
        if stays and entry.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") not in sys.modules:
            staying.append(entry.name)
        else:
            travelling.append(entry)
    return tuple(travelling)


@functools.lru_cache(maxsize=1)
def pack(entries: Entries) -> bytes:
    """Return a zip whose bytes depend on names and content alone; of an entry without a name its content."""
    contents: dict[str, bytes] = {}
    for entry in entries:
        if entry.name:
            contents[entry.name] = _content(entry)
        else:
            with zipfile.ZipFile(entry.path) as inner:
                contents.update({info.filename: inner.read(info) for info in inner.infolist() if not info.is_dir()})
    modules = [PurePosixPath(name) for name in contents if name.endswith(".py")]
    for folder in {str(parent) for module in modules for parent in module.parents if parent.name}:
        if f"{folder}/__init__.py" not in contents:  # before Python 3.13 a zip has no such package unless it lists it
            contents[f"{folder}/"] = b""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(contents):
            archive.writestr(zipfile.ZipInfo(name, _DATE), contents[name], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def as_written(text: str, zip_path: str, origin: str) -> str:
    """Return a message in which places inside copies of the zip are those of the user's files."""
    name = re.escape(zip_path.rpartition("/")[2])
    return re.sub(rf"""[^\s'"(]*/{name}/""", lambda _: origin.rstrip("/") + "/", text)


_IN_A_COPY = re.compile(r"""[^\s'"(]*/[0-9a-f]{16}\.zip/""")


def within_folder(text: str) -> str:
    """Return a text in which places inside copies of zips are paths within the folder of the user's code.

    >>> within_folder("failed (/tmp/spark-1/userFiles/0123456789abcdef.zip/jobs/visits.py:12)")
    'failed (jobs/visits.py:12)'
    """
    return _IN_A_COPY.sub("", text)


def _files_of(origin: Path, top: str) -> list[Entry]:
    """Return the files of a top-level module or package; each is looked at once."""
    module, folder = origin / f"{top}.py", origin / top
    entries = _entries(module.name, str(module), is_linked=module.is_symlink())
    waiting = [(top, str(folder), ~0)] if top not in _LEFT_OUT else []
    is_linked = folder.is_symlink()
    while waiting:
        below, path, around = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(path) as listed:
            for item in listed:
                name = f"{below}/{item.name}"
                if item.name in _LEFT_OUT:
                    continue
                if not item.is_dir():
                    if not item.name.endswith((".pyc", ".pyo", ".so")):
                        entries += _entries(name, item.path, around, is_linked=is_linked or item.is_symlink())
                elif item.is_symlink() or item.name.startswith("."):
                    entries.append(Entry(f"{name}/", item.path, (), 0, is_linked=True))
                else:
                    waiting.append((name, item.path, around & item.stat().st_mode))
    return sorted(entries)


def _entries(name: str, path: str, around: int = ~0, *, is_linked: bool = False) -> list[Entry]:
    """Return a file as an entry; nothing where it is none, or is too large."""
    try:
        status = os.stat(path)
    except FileNotFoundError:  # also a link to nothing
        return []
    if not stat.S_ISREG(status.st_mode) or (name and status.st_size > LARGEST_DATA_FILE):
        return []
    now = time.time_ns()
    seen = (now,) if status.st_ctime_ns > now - _RACY else ()
    state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, *seen)
    return [Entry(name, path, state, around & status.st_mode, is_linked)]


def _content(entry: Entry) -> bytes:
    with open(entry.path, "rb") as file:
        return file.read()


def _inside(origin: Path) -> str:
    """Return how paths of files in a folder begin."""
    return str(origin).rstrip(os.sep) + os.sep


def _imported_from(origin: Path) -> set[str]:
    """Return the top-level names of the modules that this process imported from a folder by their place in it."""
    names = set()
    inside = _inside(origin)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not (real := _real_path(file)).startswith(inside):
            continue
        place = f"{inside}{name.replace('.', os.sep)}"
        if real in (f"{place}.py", f"{place}{os.sep}__init__.py"):
            names.add(name.partition(".")[0])
    return names


@functools.lru_cache(maxsize=32)
def _imported_later(entries: Entries) -> frozenset[str]:
    """Return the top-level names that functions in files of Python import, whatever these are."""
    tops: set[str] = set()
    for entry in entries:
        if entry.name.endswith(".py"):
            for match in _IN_A_FUNCTION.finditer(_content(entry)):
                names = [match[1]] if match[1] else match[2].split(b",")
                tops |= {part.split(b".")[0].split()[0].decode() for part in names if part.strip(b" \t.")}
    return frozenset(tops - {"airflow_samza"})


@functools.lru_cache(maxsize=4096)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


@functools.lru_cache(maxsize=16384)
def _real_path(file: str) -> str:
    """Return the path of a module's file without links.

    Thousands of modules lie in few folders, and looking at every part of every path takes long.
    """
    folder, _, name = file.rpartition(os.sep)
    path = os.path.join(_real_folder(folder), name)
    return os.path.realpath(path) if os.path.islink(path) else path


def is_library(origin: str | Path) -> bool:
    """Return whether a folder is where packages are installed.

    The workers' Python has those, and they are not ours to pack.
    """
    return Path(origin).name in ("site-packages", "dist-packages") or Path(origin) == Path(sys.base_prefix)
