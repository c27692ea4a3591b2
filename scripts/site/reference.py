"""Parts of the reference that are made from the code: commands, configuration, connections, metrics, errors."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[2] / "airflow_samza"
KEY = re.compile(r"(?:app|job|stores|streams|systems|task)\.[\w.<>-]+")
HEADING = re.compile(r" *# -- (.+?) -+$")
PLACES = {"stream_id": "<stream>", "name": "<system>.<stream>"}
"""The parts of keys that code calls otherwise than the reference."""

OPTIONS = "| option | default | |\n|---|---|---|"
SHARED = 4
"""The number of commands from which on an option is described apart from them."""

READERS = {
    "config.py": "",
    "storage/backends.py": "stores",
    "chooser/settings.py": "reading",
    "application/descriptors.py": "reading",
    "task/loop/reading.py": "reading",
}
"""Modules whose functions read configuration keys, and the section of these; empty: as headings in the module say."""


def command_line() -> str:
    """Return every command with its arguments, options and an example, as ``--help`` has them.

    Options of several commands are described once, in a table of their own.
    """
    import typer

    from airflow_samza.cli.app import app

    command = typer.main.get_command(app)
    found = dict(commands(command, "airflow-samza"))
    uses = Counter(text for one in found.values() for text in {_option_row(option) for option in _options(one)})
    shared = {row for row, count in uses.items() if count >= SHARED}
    rows = dict.fromkeys(row for one in found.values() for row in map(_option_row, _options(one)) if row in shared)
    top = "\n".join(map(_option_row, _options(command)))
    parts = [
        f"{OPTIONS}\n{top}",
        f"## Options of several commands\n\n{OPTIONS}\n" + "\n".join(rows),
        *(_command(name, one, shared) for name, one in found.items()),
    ]
    return "\n\n".join(parts)


def commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield commands and groups in the order of ``--help``, a group before its commands."""
    panels = list(dict.fromkeys(getattr(command, "rich_help_panel", None) for command in group.commands.values()))
    words = sorted(
        group.commands, key=lambda word: panels.index(getattr(group.commands[word], "rich_help_panel", None))
    )
    for word in words:
        command = group.commands[word]
        yield f"{name} {word}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {word}")


def _command(name: str, command: Any, shared: Collection[str]) -> str:
    heading = f"{'#' * name.count(' ')}# `{name}`\n\n{_paragraphs(command.help)}"
    if hasattr(command, "commands"):
        return heading
    example = (command.epilog or "").removeprefix("Example: ")
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    parts = [heading, f"```console\n{example}\n```"]
    if arguments:
        rows = [f"| `{one.metavar or one.name.upper()}` | {_in_a_cell(one.help or '')} |" for one in arguments]
        parts.append("\n".join(["| argument | |", "|---|---|", *rows]))
    own = [row for row in map(_option_row, _options(command)) if row not in shared]
    if own:
        parts.append("\n".join([OPTIONS, *own]))
    others = [
        f"`{next(name for name in one.opts if name.startswith('--'))}`"
        for one in _options(command)
        if _option_row(one) in shared
    ]
    if others:
        parts.append(f"[Options of several commands](#options-of-several-commands): {', '.join(others)}.")
    return "\n\n".join(parts)


def _options(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "option" and not one.hidden]


def _option_row(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len))
    value = f" `{option.metavar}`" if option.metavar and not option.is_flag else ""
    default = "" if option.default is None or option.default is False else f"`{option.default}`"
    required = "required" if option.required else default
    return f"| {names}{value} | {required} | {_in_a_cell(option.help or '')} |"


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


@dataclass(frozen=True)
class Key:
    """A configuration key as the reference shows it."""

    section: str
    name: str
    meaning: str
    default: str


def configuration() -> str:
    """Return tables of the configuration keys of applications, with what the code says of each, by section."""
    found = sorted(configuration_keys(), key=lambda key: key.name)
    parts = []
    for section in dict.fromkeys(key.section for key in configuration_keys()):
        rows = [f"| `{key.name}` | {key.default} | {key.meaning} |" for key in found if key.section == section]
        title = section[:1].upper() + section[1:]
        parts.append("\n".join([f"### {title}", "", "| key | default | value |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def configuration_keys() -> Iterator[Key]:
    """Yield the keys that the package reads, ``<name>`` where a name stands, each once."""
    seen = set()
    for module, section in READERS.items():
        source = (PACKAGE / module).read_text(encoding="utf-8")
        headings = {
            number: found[1] for number, line in enumerate(source.splitlines()) if (found := HEADING.match(line))
        }
        tree = ast.parse(source)
        constants = {
            target.id: str(node.value.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for function in sorted(functions, key=lambda function: function.lineno):
            above = [heading for number, heading in headings.items() if number < function.lineno]
            for name in () if function.name.endswith("_key") else _keys_in(function, constants):
                if name not in seen:
                    seen.add(name)
                    yield Key(section or above[-1], name, *_meaning(name, ast.get_docstring(function) or ""))


def _meaning(key: str, docstring: str) -> tuple[str, str]:
    """Return what a reader says of a key, and the default; a line ``- ``ending``: …`` is about one of several keys."""
    text, _, listed = docstring.partition("\n\n- ")
    for ending, said in re.findall(r"(?:^|\n- )``(.+?)``: ((?:.|\n(?!- ))+)", listed):
        if key.endswith(f".{ending}"):
            text = said
    meaning, _, default = _in_a_cell(text).partition("Default: ")
    meaning = re.sub(
        r"^(?:Return whether|Return True for|Return|Yield) ",
        lambda verb: "if true, " if "whether" in verb[0] else "",
        meaning,
    )
    meaning = meaning.strip().removesuffix(".")
    return meaning[:1].lower() + meaning[1:] if meaning[1:2].islower() else meaning, default.strip()


def _keys_in(function: ast.FunctionDef, constants: dict[str, str]) -> Iterator[str]:
    """Yield the keys that a function names; a parameter of few words (``Literal``) stands for each of them."""
    words = {
        arg.arg: [str(word.value) for word in ast.walk(arg.annotation.slice) if isinstance(word, ast.Constant)]
        for arg in function.args.args
        if isinstance(arg.annotation, ast.Subscript) and ast.unparse(arg.annotation.value) == "Literal"
    }
    for node in ast.walk(function):
        texts = [""]
        if isinstance(node, ast.Name):
            texts = [constants.get(node.id, "")]
        elif isinstance(node, ast.JoinedStr):
            for part in node.values:
                name = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
                ends = words.get(name) or [
                    str(part.value) if isinstance(part, ast.Constant) else PLACES.get(name, f"<{name}>")
                ]
                texts = [text + end for text in texts for end in ends]
        yield from filter(KEY.fullmatch, texts)


def settings() -> str:
    """Return a table of the options in Airflow's configuration."""
    from airflow_samza.provider.get_provider_info import CONFIG_SECTION, get_provider_info

    options: dict[str, dict[str, Any]] = get_provider_info()["config"][CONFIG_SECTION]["options"]
    rows = [
        f"| `{name}` | {option['type']} | {_code(option['default'])} | {_code(option['example'])} "
        f"| {_in_a_cell(option['description'])} |"
        for name, option in options.items()
    ]
    return "\n".join(["| option | type | default | example | value |", "|---|---|---|---|---|", *rows])


def connections() -> str:
    """Return a table of the fields of each type of connection that the provider brings."""
    from airflow_samza.provider.get_provider_info import get_provider_info

    rows = [
        f"| `{name}` | {field['label']} | {_in_a_cell(field['description'])} |"
        for kind in get_provider_info()["connection-types"]
        for name, field in kind.get("conn-fields", {}).items()
    ]
    return "\n".join(["| field | in the form | value |", "|---|---|---|", *rows])


def error_classes() -> str:
    """Return a table of the error classes, each below its base class, with their facts."""
    from airflow_samza import errors

    def rows(kind: type[errors.SamzaError], depth: int) -> Iterator[str]:
        text, _, facts = (kind.__doc__ or "").strip().partition("\n\n")
        said = _in_a_cell(text).removeprefix("Error for ").removesuffix(".")
        named = ", ".join(re.findall(r"``(\w+)``", facts)) if "Facts: " in facts else ""
        again = "yes" if kind.retryable else ""
        yield f"| {'&ensp;' * depth}`{kind.__name__}` | `{kind.rule}` | {said} | {again} | {named} |"
        for below in kind.__subclasses__():
            if below.__module__ == errors.__name__:
                yield from rows(below, depth + 1)

    found = [
        row
        for kind in errors.SamzaError.__subclasses__()
        if kind.__module__ == errors.__name__
        for row in rows(kind, 0)
    ]
    return "\n".join(["| class | `rule` | raised for | retried | facts |", "|---|---|---|---|---|", *found])


def metrics() -> str:
    """Return a table of the metrics that stages send, with their units."""
    from airflow_samza.provider.stats import METRICS

    rows = [
        f"| `{name}` | {metric.unit} | {_in_a_cell(metric.meaning)} | {f'`{metric.tag}`' if metric.tag else ''} |"
        for name, metric in METRICS.items()
    ]
    return "\n".join(["| metric | unit | value | tag of its own |", "|---|---|---|---|", *rows])


def counters() -> str:
    """Return a table of the counters of the engine, which the metric ``metric`` sends."""
    from airflow_samza.provider.stats import COUNTERS

    rows = [f"| `{name}` | {metric.unit} | {_in_a_cell(metric.meaning)} |" for name, metric in COUNTERS.items()]
    return "\n".join(["| `metric=` | unit | value |", "|---|---|---|", *rows])


def _code(text: str) -> str:
    return f"`{text}`" if text else "–"


def _in_a_cell(text: str) -> str:
    """Return a docstring as one cell of a table, without citations of rules."""
    plain = re.sub(r" \(rules? [PCMS]\d[^)]*\)", "", re.sub(r":[a-z]+:`(?:~[\w.]*\.)?([^`]+)`", r"`\1`", text))
    return " ".join(plain.replace("``", "`").replace("|", "\\|").split())


GENERATED: dict[str, Callable[[], str]] = {
    "command line": command_line,
    "configuration": configuration,
    "settings": settings,
    "connections": connections,
    "error classes": error_classes,
    "metrics": metrics,
    "counters": counters,
}
"""The texts that a page may ask for by ``<!-- generated: NAME -->``."""
