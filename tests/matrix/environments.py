"""Environments as users make them: Airflow with the versions it was published with, then this package on top.

Airflow publishes a file of constraints with each release. ``AIRFLOW_CONSTRAINTS`` names a folder of such files
(``constraints-3.1.8-python3.11.txt``, or ``constraints-3.1.8/constraints-3.11.txt``). Without one, the versions are
resolved as they were on the day of the release, which is how Airflow makes those files, though with providers of its
own choice.
"""

from __future__ import annotations

import os
import re
import subprocess
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.specifiers import SpecifierSet

from tests.matrix.combinations import FOLDER, Combination, Suite

ROOT = Path(__file__).parents[2]
CONSTRAINTS = "AIRFLOW_CONSTRAINTS"


class Environment:
    """A virtual environment of one combination, in a folder of its own."""

    def __init__(self, combination: Combination, folder: Path) -> None:
        self.combination = combination
        self.folder = folder / combination.name
        self.python = self.folder / "venv" / "bin" / "python"
        self.pins_file = self.folder / "airflow.txt"
        self._built = self.folder / "venv" / "built"

    @property
    def is_built(self) -> bool:
        """Return True if it is there as a whole: an installation that failed or was interrupted is not."""
        return self._built.exists()

    def build(self, wheel: Path, *extras: str) -> None:
        """Make it: Airflow at its pins, then the wheel, where no pin of Airflow's may move."""
        self.folder.mkdir(parents=True, exist_ok=True)
        venv = (uv(), "venv", "--quiet", "--clear", "--python", self.combination.python, str(self.folder / "venv"))
        run(*venv, path=search_path())
        self.pins_file.write_text(self._pins())
        self._install("-r", str(self.pins_file))
        before = self.versions()
        wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
        self._install("-c", str(self.pins_file), wanted, *self._spark())
        moved = moved_pins(before, self.versions())
        if moved:
            raise AssertionError(f"{self.combination.name}: installing the wheel moved {', '.join(moved)}.")
        if not self._is_ahead():
            run(uv(), "pip", "check", "--quiet", "--python", str(self.python))
        self._built.touch()

    def make_class_archive(self) -> None:
        """Make the archive of Spark's classes that the tests use: each of a hundred Javas starts on less work."""
        folder = str(self.folder / "venv" / "class-archives")
        with (self.folder / "class-archive.log").open("w") as log:
            command = [str(self.python), "-m", "airflow_samza.launch.class_archive_maker", folder]
            # Without one, the tests are the same, and slower.
            subprocess.run(command, cwd=ROOT, env=self.environment(), stdout=log, stderr=log, check=False)

    def arguments(self, suite: Suite) -> list[str]:
        """Return the arguments of Python for a suite, whose files lie in this environment's folder."""
        places = {FOLDER: str(self.folder)}
        return [places.get(argument, argument) for argument in suite.command(self.combination)]

    def versions(self) -> dict[str, str]:
        """Return what is installed, by canonical name."""
        listed = run(uv(), "pip", "freeze", "--quiet", "--python", str(self.python))
        return pins_in(listed)

    def environment(self) -> dict[str, str]:
        """Return the variables for a process in it.

        uv compiles no modules, so the first process that imports one does, and keeps it for the hundreds that follow.
        """
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "PYTEST_"))}
        for name in ("VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"):
            kept.pop(name, None)
        bin_folder = str(self.python.parent)
        return {
            **kept,
            "PATH": os.pathsep.join([bin_folder, kept.get("PATH", os.defpath)]),
            "PYTHONPATH": str(ROOT),
            "AIRFLOW_HOME": str(self.folder / "home"),
        }

    def _pins(self) -> str:
        """Return the versions that Airflow's own distributions and their dependencies have in it."""
        wanted = self.folder / "airflow.in"
        # FAB, as Airflow's own files of constraints have it: that beside Airflow 3.1.0 wants an older sqlalchemy.
        wanted.write_text(f"apache-airflow=={self.combination.airflow}\napache-airflow-providers-fab\n")
        given = constraints_file(self.combination)
        day = self.combination.published + timedelta(days=1)
        bounds = ["--constraint", str(given)] if given is not None else ["--exclude-newer", day.isoformat()]
        return run(
            uv(), "pip", "compile", str(wanted), "--python-version", self.combination.python, *bounds,
            "--quiet", "--no-header", "--no-annotate",
        )  # fmt: skip

    def _is_ahead(self) -> bool:
        """Return if the package does not allow this Spark yet: then nothing else may be compared with requirements."""
        allowed = re.search(r'"pyspark([<>=!~][^"]*)"', (ROOT / "pyproject.toml").read_text())
        assert allowed is not None
        return self.combination.spark not in SpecifierSet(allowed[1])

    def _spark(self) -> list[str]:
        """Return what the installer is asked for of Spark; a release that is ahead overrides all requirements.

        A pyspark whose client is not published comes without one: it has all of it, and another version would
        overwrite its files.
        """
        spark = self.combination.spark
        if not self._is_ahead():
            return [f"pyspark=={spark}", f"pyspark-client=={spark}"]
        client = f"pyspark-client=={spark}"
        try:
            run(uv(), "pip", "install", "--quiet", "--dry-run", "--no-deps", "--python", str(self.python), client)
        except RuntimeError:
            client = "pyspark-client; sys_platform == 'none'"
        overrides = self.folder / "spark.txt"
        overrides.write_text(f"pyspark=={spark}\n{client}\n")
        return ["--override", str(overrides), f"pyspark[connect]=={spark}"]

    def _install(self, *arguments: str) -> None:
        run(uv(), "pip", "install", "--quiet", "--python", str(self.python), *arguments)


def constraints_file(combination: Combination) -> Path | None:
    """Return Airflow's own file of constraints for a combination; None where no folder of them is named."""
    folder = os.environ.get(CONSTRAINTS)
    if not folder:
        return None
    version, python = combination.airflow, combination.python
    names = (f"constraints-{version}-python{python}.txt", f"constraints-{version}/constraints-{python}.txt")
    found = next((path for name in names if (path := Path(folder, name)).is_file()), None)
    if found is None:
        raise RuntimeError(f"{CONSTRAINTS} names {folder}, which has neither {names[0]} nor {names[1]}.")
    return found


def pins_in(text: str) -> dict[str, str]:
    """Return the versions of lines ``name==version``, by canonical name.

    >>> pins_in("Flask-Login==0.6.3\\n# a comment\\n-e /here")
    {'flask-login': '0.6.3'}
    """
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def moved_pins(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return what has another version afterwards, or is gone.

    >>> moved_pins({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "3", "d": "4"})
    ['b 2 -> 3', 'c 3 -> none']
    """
    return [
        f"{name} {version} -> {after.get(name, 'none')}"
        for name, version in before.items()
        if after.get(name) != version
    ]


def build_wheel(folder: Path) -> Path:
    """Return a wheel of this tree."""
    folder.mkdir(parents=True, exist_ok=True)
    run(uv(), "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT))
    return max(folder.glob("airflow_samza-*.whl"), key=lambda path: path.stat().st_mtime)


def uv() -> str:
    """Return uv's program: that of this environment, or of ``UV``; pip would take several times as long."""
    given = os.environ.get("UV")
    if given:
        return given
    try:
        files = distribution("uv").files or ()
    except PackageNotFoundError:
        raise RuntimeError("uv is missing: pip install uv, or name its program in UV.") from None
    return str(next(Path(str(file.locate())).resolve() for file in files if file.name == "uv"))


def search_path() -> str:
    """Return where Pythons are looked for: PATH, then what pyenv has installed, whose shims run only what is chosen."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = sorted(pyenv.glob("versions/3.*/bin"))
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, installed)])


def run(*command: str, path: str | None = None) -> str:
    """Return the output of a command, which looks for programs in ``path``; where it fails, its errors are raised."""
    environment = {**os.environ, "PATH": path} if path is not None else None
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}.\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout
