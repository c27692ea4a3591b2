"""The image of this checkout with Airflow and a local Spark, as of ``docker/Dockerfile``, without a container engine.

Its layers are files of the Debian packages that are installed here (Java, Python, bash), the packages that
``docker/requirements.txt`` names, those that Dags of the demo import, and this package with these Dags. Python is
Debian's, of the version of the environment in which this runs.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from demo.kubernetes.images import write_image, write_newer_image

ROOT = Path(__file__).resolve().parents[2]

IMAGE = "docker.io/library/airflow-samza:1"
NEWER = "docker.io/library/airflow-samza:2"

PACKAGES = (
    *("bash", "dash", "coreutils", "grep", "sed", "findutils", "procps", "login", "passwd", "tar", "hostname"),
    *("base-files", "libc-bin", "openjdk-17-jre-headless", "python3-minimal", "libpython3-stdlib", "ca-certificates"),
    *("debianutils", "libssl3", "libffi8", "libsqlite3-0", "libstdc++6", "libgomp1"),
)

_LEFT_OUT = re.compile(r"/usr/share/(doc|man|locale|info|lintian|bash-completion)/")
_MORE = (
    *("bin", "sbin", "lib", "lib64", "etc/passwd", "etc/group", "etc/ld.so.cache", "etc/nsswitch.conf"),
    *("usr/bin/java", "etc/alternatives/java", "usr/bin/awk", "etc/alternatives/awk"),
    *("etc/ssl/certs/ca-certificates.crt", "etc/ssl/certs/java/cacerts"),
)

_KEPT_SECONDS = 7 * 86400.0
"""Seconds after its last use for which the requirements of an image are kept: other checkouts have others."""

_NOT_RUN = re.compile(r"pyspark/(examples|licenses|data)$|.*/(tests?|include)$|.*\.(h|hpp|pxd|pyx)$")

_SOURCES = re.compile(r"provider/page/web$")
"""The page's sources with their node_modules; what the page needs is built from them."""

_OF_THE_DEMO = ("scikit-learn", "scipy", "joblib", "threadpoolctl", "narwhals")
"""Packages that Dags of the demo import, which are not in the image of ``docker/Dockerfile``."""

_SCRIPT = "#!/usr/bin/python3\nimport sys\nfrom {module} import main\nsys.exit(main())\n"
_SCRIPTS = {"airflow": "airflow.__main__", "airflow-samza": "airflow_samza.cli"}


def build(archive: Path, folder: Path, kept: Path) -> dict[str, int]:
    """Write the image's archive; ``folder`` is for its layers, ``kept`` for what the next one needs again.

    Return the bytes of each layer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    libraries = f"usr/local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/dist-packages"
    layers = {
        "debian": _debian_layer(folder / "debian.tar"),
        "entry": _entry_layer(folder / "entry.tar", libraries),
        "libraries": _tree(folder / "libraries.tar", _requirements(kept), libraries, _NOT_RUN),
        "demo": _tree(folder / "demo.tar", _installed_for_the_demo(folder / "demo"), libraries, _NOT_RUN),
        "package": _package_layer(folder / "package.tar", libraries),
    }
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "JAVA_HOME": "/usr/lib/jvm/java-17-openjdk-amd64",
        "AIRFLOW_HOME": "/opt/airflow",
    }
    config = {
        "Entrypoint": ["/entrypoint"],
        "WorkingDir": "/opt/airflow",
        "Env": [f"{name}={value}" for name, value in environment.items()],
    }
    write_image(archive, IMAGE, config, list(layers.values()))
    return {name: layer.stat().st_size for name, layer in layers.items()}


def build_newer(archive: Path, folder: Path, base: Path) -> None:
    """Write the archive of :data:`NEWER`: the image in ``base`` with a later version of this package."""
    libraries = f"usr/local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/dist-packages"
    text = (ROOT / "airflow_samza/__init__.py").read_text()
    layer = folder / "newer.tar"
    with tarfile.open(layer, "w") as tar:
        _add(tar, f"{libraries}/airflow_samza/__init__.py", re.sub('(__version__ = ".*)"', r'\1.1"', text), 0o644)
    write_newer_image(archive, NEWER, base, layer)


def _site_packages() -> Path:
    return Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def _requirements(place: Path) -> Path:
    """Return the folder of the installed requirements; it is made once for each state of their file."""
    asked = ROOT / "docker/requirements.txt"
    digest = hashlib.sha256(asked.read_bytes()).hexdigest()[:16]
    kept = place / f"requirements-{digest}"
    if not kept.exists():
        print(f"Installing {asked.relative_to(ROOT)} for the image: two minutes.", file=sys.stderr)
        made = kept.with_suffix(".part")
        shutil.rmtree(made, ignore_errors=True)
        uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
        told = ["--require-hashes", "--compile-bytecode", "--target", str(made), "--requirements", str(asked)]
        subprocess.run([*uv, *told], check=True)
        made.rename(kept)
    os.utime(kept)
    for former in place.glob("requirements-*"):
        if time.time() - former.stat().st_mtime > _KEPT_SECONDS:
            shutil.rmtree(former, ignore_errors=True)
    return kept


def _installed_for_the_demo(place: Path) -> Path:
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable, "--no-deps"]
    told = ["--compile-bytecode", "--target", str(place), "--constraints", str(ROOT / "constraints.txt")]
    subprocess.run([*uv, *told, *_OF_THE_DEMO], check=True)
    return place


def _debian_layer(layer: Path) -> Path:
    listed = _lines(
        *("apt-cache", "depends", "--recurse", "--installed", "--no-recommends", "--no-suggests", "--no-conflicts"),
        *("--no-breaks", "--no-replaces", "--no-enhances", *PACKAGES),
    )
    packages = sorted({line for line in listed if re.match(r"\w", line)})
    files = {line[1:] for line in _lines("dpkg", "-L", *packages) if line.startswith("/") and not _LEFT_OUT.match(line)}
    roots = ("tmp", "proc", "sys", "dev", "run", "root", "home", "mnt", "srv")
    kept = sorted(
        file
        for file in {*files, *_MORE}
        if file and file != "." and file.partition("/")[0] not in roots and os.path.lexists(f"/{file}")
    )
    with tarfile.open(layer, "w") as tar:
        for file in kept:
            tar.add(f"/{file}", arcname=file, recursive=False)
    return layer


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def _entry_layer(layer: Path, libraries: str) -> Path:
    with tarfile.open(layer, "w") as tar:
        for folder in ("proc", "sys", "dev", "run", "root", "opt", "usr/local/bin", libraries):
            _add(tar, folder, None, 0o755)
        for folder in ("tmp", "srv/samza", "opt/airflow", "opt/airflow/dags", "opt/spark/work-dir"):
            _add(tar, folder, None, 0o1777)
        users = Path("/etc/passwd").read_text()
        _add(tar, "etc/passwd", f"{users}airflow:x:50000:0::/tmp:/bin/bash\n", 0o644)
        _add(tar, "entrypoint", (ROOT / "docker/entrypoint.sh").read_text(), 0o755)
        for name, module in _SCRIPTS.items():
            _add(tar, f"usr/local/bin/{name}", _SCRIPT.format(module=module), 0o755)
        submit = f'#!/bin/bash\nexec /{libraries}/pyspark/bin/spark-submit "$@"\n'
        _add(tar, "usr/local/bin/spark-submit", submit, 0o755)
        link = tarfile.TarInfo("usr/local/bin/python")
        link.type, link.linkname = tarfile.SYMTYPE, "/usr/bin/python3"
        tar.addfile(link)
    return layer


def _add(tar: tarfile.TarFile, name: str, content: str | None, mode: int) -> None:
    import io

    entry = tarfile.TarInfo(name)
    entry.mode = mode
    if content is None:
        entry.type = tarfile.DIRTYPE
        tar.addfile(entry)
        return
    entry.size = len(content.encode())
    tar.addfile(entry, io.BytesIO(content.encode()))


def _package_layer(layer: Path, libraries: str) -> Path:
    with tarfile.open(layer, "w") as tar:
        for name in ("airflow_samza", "demo"):
            _walk(tar, ROOT / name, f"{libraries}/{name}", _SOURCES)
        _walk(tar, ROOT / "dags", "opt/airflow/dags", re.compile("$^"))
        for metadata in _site_packages().glob("airflow_samza-*.dist-info"):
            _walk(tar, metadata, f"{libraries}/{metadata.name}", re.compile("$^"))
    return layer


def _tree(layer: Path, source: Path, target: str, left_out: re.Pattern[str]) -> Path:
    with tarfile.open(layer, "w") as tar:
        _walk(tar, source, target, left_out)
    return layer


def _walk(tar: tarfile.TarFile, source: Path, target: str, left_out: re.Pattern[str]) -> None:
    """Add a folder, without what matches below it; compiled modules stay, as reading a Dag takes seconds without."""
    for folder, names, files in os.walk(source):
        place = os.path.relpath(folder, source)
        inside = "" if place == "." else f"{place}/"
        names[:] = sorted(_kept(names, inside, left_out))
        for file in sorted(_kept(files, inside, left_out)):
            tar.add(os.path.join(folder, file), arcname=f"{target}/{inside}{file}", recursive=False)


def _kept(names: Iterable[str], inside: str, left_out: re.Pattern[str]) -> Sequence[str]:
    return [name for name in names if not left_out.match(f"{inside}{name}")]
