"""Containers of tests, by Linux' namespaces: processes, host name, mounts and /tmp of their own, over folders that are shared.

The first process is the task, as in a pod of the KubernetesExecutor; all that it has started ends with it. No engine of
containers is needed, but a machine that lets a test have namespaces.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

_NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"]


@functools.lru_cache(maxsize=1)
def _beginning() -> tuple[str, ...] | str:
    """The beginning of a command that runs in a container; else the reason why there is none."""
    if shutil.which("unshare") is None:
        return "there is no unshare (util-linux)"
    anybody = [*_NAMESPACES[:1], "--user", "--map-root-user", *_NAMESPACES[1:]]
    said = ""
    for command in (_NAMESPACES, anybody):
        check = [*command, "sh", "-ec", "mount -t tmpfs none /mnt; hostname samza-test"]
        done = subprocess.run(check, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return tuple(command)
        said = done.stderr.strip()
    return f"this machine lets a test have no namespaces: {said}"


def need_containers() -> None:
    """Skips a test on a machine that allows no namespaces, with the reason."""
    found = _beginning()
    if isinstance(found, str):
        pytest.skip(found)


@dataclass
class Container:
    """A container. ``shared`` are the folders that it has in common with this machine, beside Python and this repository.

    ``name`` is its host name. ``read_only``: of all else only /tmp can be written, which is its own. ``uid``: its
    user's number, which nothing gives a name.
    """

    shared: Sequence[Path]
    name: str = "worker"
    read_only: bool = False
    uid: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[str] | None = None

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start the first process."""
        beginning = _beginning()
        assert not isinstance(beginning, str), beginning
        environment = {
            **{name: value for name, value in os.environ.items() if name not in ("TMPDIR", "PYTEST_CURRENT_TEST")},
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.environment,
        }
        as_user = [] if self.uid is None else ["unshare", "--user", f"--map-user={self.uid}", f"--map-group={self.uid}"]
        whole = [*beginning, "sh", "-ec", self._set_up(), "sh", *as_user, *command]
        self._process = subprocess.Popen(
            whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd="/"
        )
        return self._process

    def run(self, *command: str, seconds: float = 240) -> tuple[int, str]:
        """Run a command to its end: exit code, and what it printed."""
        with self.start(*command) as process:
            said, _ = process.communicate(timeout=seconds)
            return process.returncode, said

    def evict(self) -> None:
        """End it at once, with all that runs in it; one that has ended, or never began, stays so."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(300)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _set_up(self) -> str:
        lines = [f"hostname {shlex.quote(self.name)}", "mount -t tmpfs none /mnt"]
        kept = [path for path in (*self.shared, REPOSITORY, Path(sys.prefix).resolve()) if path.is_relative_to("/tmp")]
        for number, path in enumerate(kept):
            lines += [f"mkdir /mnt/{number}", f"mount --rbind {shlex.quote(str(path))} /mnt/{number}"]
        others = [path for path in self.shared if path not in kept]
        if self.read_only:
            lines += [f"mount --bind {shlex.quote(str(path))} {shlex.quote(str(path))}" for path in others]
            lines += ["mount -o remount,bind,ro /", "mount -t tmpfs -o size=64k none /dev/shm"]
            lines += ["ps=$(command -v ps || true)", 'if [ -n "$ps" ]; then mount --bind /dev/null "$ps"; fi']
        lines += ["mount -t tmpfs -o mode=1777 none /tmp"]
        for number, path in enumerate(kept):
            quoted = shlex.quote(str(path))
            lines += [f"mkdir -p {quoted}", f"mount --rbind /mnt/{number} {quoted}"]
        return "; ".join([*lines, 'exec "$@"'])
