"""Tables of Iceberg and Delta as DuckDB's own extensions read them: nothing of this package, of pyiceberg or deltalake.

The extensions come from PyPI, for another version of DuckDB than the development packages have. So they lie in an
environment of their own, which is made once on this machine.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from demo.store_servers import installed

VERSION = "1.5.5"
PACKAGES = [
    f"{name}=={VERSION}"
    for name in ("duckdb", "duckdb-extension-avro", "duckdb-extension-iceberg", "duckdb-extension-delta")
] + ["pytz==2026.6"]  # for times in a zone

_MAKE = f"{sys.executable} -m venv . && bin/pip install --quiet --disable-pip-version-check {' '.join(PACKAGES)}"
_ASK = """
import json, sys, sysconfig
from pathlib import Path
import duckdb

connection = duckdb.connect()
for name in ("avro", "iceberg", "delta"):
    (file,) = Path(sysconfig.get_paths()["purelib"]).glob(f"duckdb_extension_{name}/extensions/*/*.duckdb_extension")
    connection.execute(f"LOAD '{file}'")
connection.execute("SET TimeZone = 'UTC'")
connection.execute("SET enable_progress_bar = false")  # which questions of more than two seconds would print
answers = [connection.execute(question).fetchall() for question in json.load(sys.stdin)]
json.dump(answers, sys.stdout, default=str)
"""


def ask(*questions: str) -> list[list[list[Any]]]:
    """Return the rows of each question in SQL, with texts for values that JSON does not have."""
    python = installed("duckdb-lake", "bin/python", ["sh", "-c", _MAKE])
    done = subprocess.run(
        [str(python), "-I", "-c", _ASK], input=json.dumps(questions), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"DuckDB {VERSION} cannot answer {'; '.join(questions)}:\n{done.stderr.strip()}")
    answers: list[list[list[Any]]] = json.loads(done.stdout)
    return answers


def iceberg(lake: Path, table: str) -> str:
    """Return the newest metadata file of a table, in quotes: the catalog in a folder is a SQLite database."""
    namespace, _, name = table.rpartition(".")
    with closing(sqlite3.connect(f"file:{lake}/catalog.db?mode=ro", uri=True)) as database:
        said = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
        ((location,),) = database.execute(said, (namespace, name)).fetchall()
    return f"'{str(location).removeprefix('file://')}'"


def iceberg_rows(lake: Path, table: str) -> str:
    """Return the words of SQL for the rows of a table of a catalog in a folder."""
    return f"iceberg_scan({iceberg(lake, table)})"


def delta_rows(folder: Path) -> str:
    """Return the words of SQL for the rows of a table in a folder."""
    return f"delta_scan('{folder}')"


def delta_versions(folder: Path) -> list[tuple[int, str]]:
    """Return the number of each commit in a table's log, and the operation that it says it is of."""
    found = []
    for file in sorted((folder / "_delta_log").glob("*.json")):
        actions: list[Mapping[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
        operation = next((one["commitInfo"].get("operation", "") for one in actions if "commitInfo" in one), "")
        found.append((int(file.stem), str(operation)))
    return found


def as_rows(answer: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return an answer as DuckDB's own client has it."""
    return [tuple(row) for row in answer]
