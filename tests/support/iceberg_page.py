"""The steps of the page on Iceberg: its files are written and its commands are run, in one folder."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from tests.support.iceberg_lake import rows_of, stream, system_at
from tests.support.page_commands import check_shown, do_steps

PAGE = "how-to/iceberg.md"


def check_first_table(command_line: Sequence[str], tmp_path: Path) -> None:
    """Do what the page says, with these words for the command line, and see that the plan and the output are right."""
    said = do_steps(PAGE, command_line, tmp_path)
    check_shown(PAGE, said)
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
