"""Damaged files of every format are read or rejected by a sentence, and end no process.

Seconds here, longer with ``FUZZ_SECONDS``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_samza.systems.files.formats.options import FORMATS
from tests.support.budgets import seconds

SECONDS = seconds("FUZZ_SECONDS", 10)
"""For all formats together."""

SEED = int(os.environ.get("FUZZ_SEED", "1"))


@pytest.mark.random
@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.few(2)
def test_a_damaged_file_is_read_or_rejected_by_a_sentence(tmp_path: Path, format_name: str) -> None:
    share = SECONDS / len(FORMATS)
    program = str(Path(__file__).parents[1] / "support/hostile_reader.py")
    command = [sys.executable, program, format_name, str(SEED), "0", str(share), str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=share + 240,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    case = (tmp_path / "progress").read_text().strip() if (tmp_path / "progress").exists() else "none"
    again = f"python tests/support/hostile_reader.py {format_name} {SEED} {case} 0 DIRECTORY"
    assert done.returncode == 0, (
        f"case {case} ended the process ({done.returncode}); again: {again}\n{done.stderr[-2000:]}"
    )
    assert not (tmp_path / "found").exists(), f"{json.loads((tmp_path / 'found').read_text())['wrong']}\nagain: {again}"
    assert done.stderr == ""
    assert case != "none"
