"""Every command that a page names is one, with its options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from airflow_samza.cli.app import app

ROOT = Path(__file__).parents[3]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
ROOT_COMMAND: Any = typer.main.get_command(app)


def commands(page: Path) -> Iterator[str]:
    """Yield what a page shows of the command line, in blocks and in its text."""
    text = page.read_text(encoding="utf-8")
    for _, block in re.findall(r"```(console|bash)\n(.*?)```", text, flags=re.DOTALL):
        yield from re.findall(r"^airflow-samza .*$", block, flags=re.MULTILINE)
    yield from re.findall(r"(?<!`)`(airflow-samza [^`]+)`(?!`)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def problem(command: str) -> str | None:
    """Return what is wrong with a command; None when the command line has all of its words and options."""
    words = shlex.split(command.split(" # ")[0].split("; ")[0].replace("…", ""))[1:]
    found: Any = ROOT_COMMAND
    path: list[str] = []
    while words and hasattr(found, "commands") and not words[0].startswith("-"):
        if words[0] not in found.commands:
            return f"{' '.join(path)} has no command {words[0]!r}"
        found = found.commands[words[0]]
        path.append(words.pop(0))
    known = {option for one in found.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
    unknown = [word for word in words if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known]
    return f"{' '.join(path)} has no option {unknown[0]!r}" if unknown else None


def test_every_command_on_a_page_is_one() -> None:
    shown = [(page.relative_to(ROOT).as_posix(), command) for page in PAGES for command in commands(page)]
    assert len(shown) > 100
    assert [(page, command, why) for page, command in shown if (why := problem(command))] == []


def test_an_unknown_command_or_option_is_found() -> None:
    assert problem("airflow-samza state forget APP") == "state has no command 'forget'"
    assert problem("airflow-samza gc --dry") == "gc has no option '--dry'"
    assert problem("airflow-samza topics list --env dev") is None
