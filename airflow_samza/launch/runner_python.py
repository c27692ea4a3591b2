"""The Python environment of stage runners and their workers, where it is another than this process's own.

``runner_python`` names the Python program of that environment. It is run once before a runner is started with it, so
that what it lacks is one sentence here instead of a traceback in the runner's log. The launcher starts runners by it,
and the command ``run`` checks it first.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_samza import __version__
from airflow_samza.errors import ConfigError, RuntimeMissing, SamzaError
from airflow_samza.launch.code_shipping import is_library
from airflow_samza.launch.drivers.spark_submit import WORKERS_PYTHON
from airflow_samza.launch.masters import CHOOSES_A_SPARK, Master, SubmitOptions
from airflow_samza.launch.spark_versions import PAIRS, WITHOUT_CLIENT

KEY = "runner_python"
"""The key that names it, in connections, operators and samza.toml."""

OLDEST = (3, 10)

NEEDED = (
    "aiolimiter",
    "cachetools",
    "cloudpickle",
    "fsspec",
    "msgspec",
    "numpy",
    "pandas",
    "pendulum",
    "psutil",
    "pyarrow",
    "sortedcontainers",
    "sqlglot",
    "tenacity",
)
"""Packages that every runner and worker imports. Airflow is not one of them."""

# A cold start of Python takes 0.1 s; on a machine under heavy load it has been seen to take twenty seconds.
_PROBE_SECONDS = 60

OUR_FOLDER = str(Path(__file__).resolve().parents[2])

# Variables that hold paths of this process's environment; another Python would import libraries made for this one.
_OF_THIS_ENVIRONMENT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")

# Runs on any Python, also on one that is too old; what it prints before the marker is not ours.
_MARKER = "airflow-samza-probe:"
_PROBE = f"""
import json, os, sys
found = {{"version": list(sys.version_info[:3])}}
if sys.version_info >= (3, 10):
    from importlib import util
    def place(name):
        spec = util.find_spec(name)
        return spec and (spec.origin or next(iter(spec.submodule_search_locations or ()), None))
    found["lacks"] = [name for name in {NEEDED!r} if place(name) is None]
    for name, file in (("airflow_samza", "__init__.py"), ("pyspark", "version.py")):
        origin = place(name)
        if origin is not None:
            folder, text = os.path.dirname(origin), {{}}
            with open(os.path.join(folder, file)) as lines:
                line = next((line for line in lines if line.startswith("__version__")), "__version__ = 'unknown'")
            exec(line.replace(": str", ""), text)
            found[name] = [text["__version__"], folder]
print("{_MARKER}" + json.dumps(found))
"""


@dataclass(frozen=True)
class Environment:
    """A Python environment as its own Python reports it.

    ``version`` is Python's, ``package`` and ``pyspark`` are the versions of airflow_samza and pyspark (empty: not
    there), ``package_home`` and ``spark_home`` their folders.
    """

    python: str
    version: tuple[int, ...]
    lacks: tuple[str, ...] = ()
    package: str = ""
    package_home: str = ""
    pyspark: str = ""
    spark_home: str = ""

    @property
    def shown(self) -> str:
        """``Python 3.11.7``."""
        return f"Python {'.'.join(map(str, self.version))}"

    @property
    def minor(self) -> str:
        """``3.11``."""
        return ".".join(map(str, self.version[:2]))


def checked_path(value: str, folder: Path | None = None) -> str:
    """Return a ``runner_python`` as a whole path; a relative one starts at ``folder``, and is rejected without one.

    Links stay: the program of a virtual environment is a link, by whose place it knows its libraries.
    """
    text = str(value).strip()
    if not text:
        return ""
    path = os.path.expanduser(text)
    if os.path.isabs(path):
        return os.path.normpath(path)
    if folder is not None and os.sep in path:
        return os.path.normpath(folder / path)
    raise ConfigError(
        f"{KEY} is {value!r}, which is not an absolute path.",
        hint="Write the path of the environment's Python program, such as /opt/environments/etl/bin/python.",
        key=KEY,
        value=text,
    )


def check_pythons(python: str, master: Master, submit: SubmitOptions, conf: Mapping[str, str]) -> Environment | None:
    """Reject a ``runner_python``, or a Python of local workers, that this host has not or that lacks something.

    Returns the environment of the runner, as far as it is looked at: a driver in a cluster has it on another host.
    """
    runner = None
    if python and not submit.in_cluster:
        runner = find_environment(python, KEY)
        _check_contents(runner, KEY, needs_package=not master.is_submitted, needs_java_side=master.is_local)
    workers = _path_of(conf.get(WORKERS_PYTHON, "")) if master.is_local else None
    if workers is not None and workers != (python or sys.executable):
        runner = runner or find_environment(sys.executable, KEY)
        package = os.path.dirname(runner.package_home) if python else OUR_FOLDER
        inherited = [] if python else os.environ.get("PYTHONPATH", "").split(os.pathsep)
        path = workers_path(package, inherited, same_python=False)
        _check_workers(find_environment(workers, WORKERS_PYTHON, path), runner)
    return runner


def workers_path(package: str, inherited: Iterable[str], *, same_python: bool) -> str:
    """Return the PYTHONPATH of local workers: what the runner inherited, and the folder that has this package.

    Where that is a folder of installed libraries, it is left out for another Python than the runner's: that one has
    libraries of its own, and these may be made for another version.
    """
    paths = [path for path in inherited if path and path != package]
    return os.pathsep.join([package, *paths] if same_python or not is_library(package) else paths)


def environment_for(python: str) -> dict[str, str]:
    """Return the environment variables for another Python: this process's, without those that name its own libraries.

    Nothing in them chooses a Spark: that is what the runner's settings do.
    """
    left_out = CHOOSES_A_SPARK.union(_OF_THIS_ENVIRONMENT) if python else CHOOSES_A_SPARK
    return {name: value for name, value in os.environ.items() if name not in left_out}


def find_environment(python: str, named_by: str, path: str = "") -> Environment:
    """Return the environment of a Python program, by running it; :class:`RuntimeMissing` when it does not run.

    ``path`` is its PYTHONPATH. It is run once until one of the files changes that the environment hangs on.
    """
    return _found(python, named_by, path, environment_state(python))


@functools.lru_cache(maxsize=16)
def _found(python: str, named_by: str, path: str, _: object) -> Environment:
    return _environment(python, named_by, _probed(python, named_by, path))


def _probed(python: str, named_by: str, path: str) -> dict[str, Any]:
    about = {"path": python, "named_by": named_by}
    if not os.path.exists(python):
        raise RuntimeMissing(
            f"There is no Python at {python}, which {named_by} names.",
            hint="Make the environment on this host, where the stage runner starts, or correct the path.",
            **about,
        )
    if os.path.isdir(python) or not os.access(python, os.X_OK):
        inside = os.path.join(python, "bin", "python")
        hint = f"Its Python is {inside}." if os.path.isfile(inside) else "Name the Python program of an environment."
        raise RuntimeMissing(f"{python}, which {named_by} names, is no program that can be run.", hint=hint, **about)
    try:
        done = subprocess.run(
            [python, "-c", _PROBE],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=False,
            env={**environment_for(python), **({"PYTHONPATH": path} if path else {})},
            cwd="/",
        )
        _, marker, answer = done.stdout.rpartition(_MARKER)
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        why = f"it ends with exit code {done.returncode}{f': {said[-1][:200]}' if said else ''}"
        facts: dict[str, Any] | None = json.loads(answer) if marker and done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        facts, why = None, str(error)
    if facts is None:
        raise RuntimeMissing(
            f"The Python at {python}, which {named_by} names, does not start: {why}.",
            hint=f"Try it: {python} --version",
            **about,
        )
    return facts


def _environment(python: str, named_by: str, facts: Mapping[str, Any]) -> Environment:
    version = tuple(facts["version"])
    if version < OLDEST:
        raise RuntimeMissing(
            f"The Python at {python}, which {named_by} names, is Python {'.'.join(map(str, version))}, and stages need "
            f"{'.'.join(map(str, OLDEST))} or newer.",
            hint="Make the environment with a newer Python.",
            path=python,
            named_by=named_by,
            version=".".join(map(str, version)),
        )
    ours, sparks = facts.get("airflow_samza", ("", "")), facts.get("pyspark", ("", ""))
    return Environment(python, version, tuple(facts["lacks"]), *ours, *sparks)


def _check_contents(environment: Environment, named_by: str, *, needs_package: bool, needs_java_side: bool) -> None:
    if needs_package and environment.package != __version__:
        raise _wrong(
            environment, named_by, "airflow_samza", environment.package, __version__, f"airflow-samza=={__version__}"
        )
    releases = [f"{major}.{minor}" for major, minor in sorted({*PAIRS, *WITHOUT_CLIENT})]
    if not environment.pyspark.startswith(tuple(f"{release}." for release in releases)):
        raise _wrong(
            environment,
            named_by,
            "pyspark",
            environment.pyspark,
            " or ".join(releases),
            f"pyspark=={PAIRS[max(PAIRS)]}",
        )
    if (
        needs_java_side
        and not os.path.isdir(os.path.join(environment.spark_home, "jars"))
        and "SPARK_HOME" not in os.environ
    ):
        raise RuntimeMissing(
            f"The environment of {environment.python}, which {named_by} names, has pyspark-client "
            f"{environment.pyspark} alone, and a local Spark needs all of pyspark.",
            hint=f"Install it: {environment.python} -m pip install pyspark=={environment.pyspark}",
            path=environment.python,
            named_by=named_by,
        )
    if environment.lacks:
        lacking = ", ".join(environment.lacks)
        raise RuntimeMissing(
            f"The environment of {environment.python}, which {named_by} names, lacks {lacking}.",
            hint=f"Install it: {environment.python} -m pip install {' '.join(environment.lacks)}",
            path=environment.python,
            named_by=named_by,
            package=lacking,
        )


def _check_workers(workers: Environment, runner: Environment) -> None:
    """Reject workers that cannot read what the runner sends them: functions travel by value."""
    if workers.minor != runner.minor:
        raise RuntimeMissing(
            f"Python workers run {workers.shown} ({WORKERS_PYTHON} is {workers.python}), and their stage runner "
            f"{runner.shown} ({runner.python}); functions go from one to the other by value.",
            hint=f"Give both the same Python 3.x: set {KEY} to {workers.python}, or leave {WORKERS_PYTHON} out.",
            workers=workers.minor,
            runner=runner.minor,
        )
    _check_contents(workers, WORKERS_PYTHON, needs_package=True, needs_java_side=False)
    if workers.pyspark != runner.pyspark:
        raise _wrong(workers, WORKERS_PYTHON, "pyspark", workers.pyspark, runner.pyspark, f"pyspark=={runner.pyspark}")


def _wrong(environment: Environment, named_by: str, name: str, has: str, needed: str, requirement: str) -> SamzaError:
    what = f"has {name} {has}, and {needed} is needed" if has else f"lacks {name}"
    return RuntimeMissing(
        f"The environment of {environment.python}, which {named_by} names, {what}.",
        hint=f"Install it: {environment.python} -m pip install '{requirement}'",
        path=environment.python,
        named_by=named_by,
        package=name,
        version=has,
    )


def _path_of(python: str) -> str | None:
    return None if not python else shutil.which(python) or python


def environment_state(python: str) -> tuple[tuple[str | int, ...], ...]:
    """Return an environment's Python and folders of packages (of "" ours) with their states: installing changes one."""
    if python:
        prefix = Path(python).parent.parent
        places = [python, f"{prefix}/pyvenv.cfg", *map(str, sorted(prefix.glob("lib*/python*/*-packages")))]
    else:
        places = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return tuple((place, *state_of(place)) for place in places)


def state_of(path: str) -> tuple[int, ...]:
    """Return size and time of a file or folder, which change with its content; nothing of one that is missing."""
    with suppress(OSError):
        about = os.stat(path)
        return about.st_size, about.st_mtime_ns
    return ()
