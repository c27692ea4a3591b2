"""The page on Delta: its steps are done, and what comes out is looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from tests.support.page_commands import check_shown, do_steps

PAGE = "how-to/delta.md"


def check_first_table(command_line: Sequence[str], tmp_path: Path) -> None:
    """Do what the page says, with these words for the command line, and see that the plan and the output are right."""
    said = do_steps(PAGE, command_line, tmp_path)
    check_shown(PAGE, said)
    text = " ".join(said.split())
    assert re.search(r"reads the version 0 of web\.views: 1 file, 2 rows, \d+ B", text), said
    assert "skips what statistics rule out by country = nl" in text
    lines = [line for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    assert sorted((row["member_id"], row["dwell_ms"]) for row in map(json.loads, lines)) == [(7, 1500), (8, 900)]
    counts = DeltaTable(str(tmp_path / "lake/web/per_country"))
    rows = pa.table(counts.scan().read_all()).to_pylist()
    assert sorted((row["country"], row["views"]) for row in rows) == [("be", 1), ("nl", 2)]
    assert len(counts.file_uris()) == len([file for file in counts.file_uris() if "samza-" in file])
    assert "replaces what the run" in text
    assert "2 rows to be published" in said
    assert "The branch 'audit/monday' of the table web.dutch is published (version 1)." in said
    dutch = pa.table(DeltaTable(str(tmp_path / "lake/web/dutch")).scan().read_all()).to_pylist()
    assert sorted((row["member_id"], row["dwell_ms"]) for row in dutch) == [(7, 1500), (8, 900)]
