"""The page on Iceberg, done as a reader does it: its files, its commands, and what its tables promise."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from airflow_samza.schema import Schema
from airflow_samza.systems.iceberg.columns import columns_of, fields_of
from airflow_samza.systems.iceberg.options import CATALOG_TYPES
from tests.support.documentation_pages import text_of

PAGE = "how-to/iceberg.md"
HERE = Path(__file__).parents[3]
STEP = re.compile(r"<!-- example: (\S+) -->\n```(\w+)\n(.*?)```", re.DOTALL)


def test_the_first_table_is_read_by_the_commands_of_the_page(tmp_path: Path) -> None:
    said = ""
    for name, language, text in STEP.findall(text_of(PAGE)):
        if language == "python":
            (tmp_path / name).write_text(text)
            continue
        for command in text.strip().splitlines():
            program, *words = shlex.split(command)
            if program == "airflow-samza":
                words = ["-m", "tests.support.command_without_spark", *words]
            path = os.pathsep.join([str(HERE), str(tmp_path)])
            environment = {**os.environ, "PYTHONPATH": path, "RUNNER_DIALS": str(tmp_path)}
            done = subprocess.run(
                [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            said += done.stdout
    text = " ".join(said.split())
    assert re.search(r"reads the snapshot \d+ of web\.views: 1 file, 3 rows, [\d.]+ KiB", text), said
    assert "skips what statistics rule out by country = nl" in text
    lines = [line for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    assert [json.loads(line) for line in lines] == [
        {"member_id": 7, "dwell_ms": 1500},
        {"member_id": 8, "dwell_ms": 900},
    ]


def test_the_types_are_those_of_the_code() -> None:
    for words, found in re.findall(r"^\| (`[^|]+) \| (`[^|]+|the same) \|$", text_of(PAGE), flags=re.M):
        for word in re.findall(r"`([\w(), \[\]]+)`", words):
            if word in ("struct", "list", "map"):
                continue
            kind = word.replace("p, s", "9, 2").replace("[n]", "[4]")
            field = {"id": 1, "name": "x", "type": kind, "required": False}
            wanted = word if found == "the same" else re.findall(r"`([^`]+)`", found)[0].replace("p,s", "9,2")
            assert Schema(fields_of(columns_of([field]), "t")).ddl() == f"x {wanted}"


def test_every_type_of_catalog_is_named() -> None:
    assert all(f"`{kind}`" in text_of(PAGE) for kind in CATALOG_TYPES)
