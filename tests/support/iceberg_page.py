"""The steps of the page on Iceberg: its files are written and its commands are run, in one folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.documentation_pages import text_of
from tests.support.iceberg_lake import rows_of, stream, system_at

PAGE = "how-to/iceberg.md"
_HERE = Path(__file__).parents[2]
_STEP = re.compile(r"<!-- example: (\S+) -->\n```(\w+)\n(.*?)```", re.DOTALL)


def check_first_table(command_line: Sequence[str], tmp_path: Path) -> None:
    """Do what the page says, with these words for the command line, and see that the plan and the output are right."""
    said = ""
    for name, language, text in _STEP.findall(text_of(PAGE)):
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
    text = " ".join(said.split())
    assert re.search(r"reads the snapshot \d+ of web\.views: 1 file, 3 rows, [\d.]+ KiB", text), said
    assert "skips what statistics rule out by country = nl" in text
    assert "makes the table web.per_country" in text
    assert re.search(r"commits to the table web\.per_country; replaces what the run '[^']+' wrote", text), said
    counted = rows_of(system_at(tmp_path / "lake"), stream("web.per_country"))
    assert sorted((row["country"], row["views"]) for row in counted) == [("be", 1), ("nl", 2)]
    lines = [line for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    assert [json.loads(line) for line in lines] == [
        {"member_id": 7, "dwell_ms": 1500},
        {"member_id": 8, "dwell_ms": 900},
    ]
