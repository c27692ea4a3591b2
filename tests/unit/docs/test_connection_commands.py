"""Every command of a page or hint that defines a connection, run by an Airflow that knows nothing else."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.provider.connections.bindings import types_of
from airflow_samza.provider.connections.fields import adding
from airflow_samza.system_kinds import BUILT_IN

ROOT = Path(__file__).parents[3]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
START = "airflow connections add "

RUN = """
import json, sys
from airflow.cli.cli_parser import get_parser
from airflow.models import Connection
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from sqlalchemy import select

answer, sys.stdout = sys.stdout, sys.stderr
initdb()
parser, found = get_parser(), []
for words in json.load(sys.stdin):
    args = parser.parse_args(words)
    typed = args.conn_type or json.loads(args.conn_json)["conn_type"]
    args.func(args)
    with create_session() as session:
        connection = session.scalar(select(Connection).where(Connection.conn_id == words[2]))
        found.append([typed, connection.conn_type, connection.extra_dejson])
        session.delete(connection)
json.dump(found, answer)
"""


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command that a page shows, in blocks (perhaps over several lines) and in its text."""
    for block in re.findall(r"```\w*\n(.*?)```", text, flags=re.DOTALL):
        for rest in block.split(START)[1:]:
            yield words_of(START + rest)
    for code in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        if START in code:
            yield words_of(START + code.split(START)[1].rstrip("."))


def words_of(text: str) -> list[str]:
    """Return the words of the command that a text begins with: up to the line's end outside of quotes."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars="\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    words: list[str] = []
    while (word := lexer.get_token()) is not None and word[0:1] not in ("\n", "#"):
        words.append(word)
    return words[1:]


def stored(folder: Path, asked: list[list[str]]) -> list[tuple[str, str, object]]:
    """Return the type that was typed, the type that Airflow has stored, and the extra, for each command."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN],
        input=json.dumps(asked),
        env={**environment, "AIRFLOW_HOME": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [(typed, kept, extra) for typed, kept, extra in json.loads(done.stdout.splitlines()[-1])]


@pytest.mark.extended
def test_every_command_of_a_page_or_hint_stores_the_type_that_is_typed(tmp_path: Path) -> None:
    asked = [
        (page.relative_to(ROOT).as_posix(), words)
        for page in PAGES
        for words in commands(page.read_text(encoding="utf-8"))
    ]
    assert len(asked) >= 30
    types = {"samza", "spark", "spark_connect", *(kind for name in BUILT_IN for kind in types_of(name))}
    assert types >= {"fs", "kafka", "iceberg", "delta", "jdbc", "spark_sql"}
    asked += [("a hint", words_of(adding("hinted", kind))) for kind in sorted(types)]
    found = stored(tmp_path, [words for _, words in asked])
    assert len(found) == len(asked)
    assert [
        (where, typed, kept) for (where, _), (typed, kept, _) in zip(asked, found, strict=True) if kept != typed
    ] == []


def test_words_in_quotes_may_have_several_lines() -> None:
    block = (
        f"```console\n{START}a --conn-type b \\\n  --conn-extra '{{\n\"c\": 1}}'\n{START}d --conn-type e # f\nls\n```"
    )
    assert list(commands(block)) == [
        ["connections", "add", "a", "--conn-type", "b", "--conn-extra", '{\n"c": 1}'],
        ["connections", "add", "d", "--conn-type", "e"],
    ]
