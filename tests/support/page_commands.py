"""The steps of a page, done as a reader does them: its files are written and its commands are run, in one folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.documentation_pages import text_of

_HERE = Path(__file__).parents[2]
_STEP = re.compile(r"<!-- example: (\S+) -->\n```(\w+)\n(.*?)```", re.DOTALL)


def do_steps(page: str, command_line: Sequence[str], tmp_path: Path) -> str:
    """Do what a page says, with these words for the command line; return what the commands say."""
    said = ""
    for name, language, text in _STEP.findall(text_of(page)):
        if language == "python":
            (tmp_path / name).write_text(text)
            continue
        for command in text.strip().splitlines():
            program, *words = shlex.split(command)
            if program == "airflow-samza":
                words = [*command_line, *words]
            path = os.pathsep.join([str(_HERE), str(tmp_path)])
            environment = {**os.environ, "PYTHONPATH": path, "RUNNER_DIALS": str(tmp_path)}
            done = subprocess.run(
                [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            said += done.stdout + done.stderr
    return said


def check_shown(page: str, said: str) -> None:
    """See that what a page shows of the commands' words is among them; its numbers may differ, and ``…`` is left out."""

    def plain(text: str) -> str:
        return re.sub(r"\d[\d.]*", "0", " ".join(text.split()))

    blocks = re.findall(r"^```text\n(.*?)^```", text_of(page), flags=re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        parts = (re.escape(plain(part)) for part in block.split("…"))
        assert re.search(".*?".join(parts), plain(said)), f"{block}\nis not in\n{said}"
