"""Entries of the reference for public names: signature, docstring and parameters, as Markdown of code hosts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe
from griffe import Attribute, Class, DocstringSectionKind, Function, Parameter, ParameterKind as Kind

from scripts.site.docstrings import PlainDocstrings

ROOT = Path(__file__).parents[2]
WIDTH = 100
"""Letters of the longest signature in one line."""

CALLED_BY_AIRFLOW = frozenset(
    {
        "check_complete",
        "execute",
        "execute_again",
        "execute_complete",
        "expand",
        "notify",
        "on_kill",
        "partial",
        "poke",
        "resume_execution",
        "serialize",
        "tasks_of",
    }
)
"""Methods that no user calls."""

MADE_BY_THE_PACKAGE = frozenset(
    {"StreamApplicationDescriptor", "TaskApplicationDescriptor", "MessageStream", "ApplicationSpec"}
)
"""Classes of which users get instances and make none: they are shown without parameters."""

WITHOUT_MEMBERS = frozenset({"KafkaMessagesTrigger"})
WITH_INHERITED = frozenset({"StreamApplicationDescriptor", "MessageStream", "SamzaHook"})
"""Classes that have part of their methods from base classes of this package that no page shows."""


@cache
def package() -> Any:
    """Return the package as its source says, with complete signatures and plain docstrings (takes half a minute)."""
    return griffe.load("airflow_samza", search_paths=[ROOT], extensions=griffe.load_extensions(PlainDocstrings))


def found(place: str) -> Any:
    """Return what a public name such as ``airflow_samza.operators.SamzaPlanOperator`` names."""
    shown = package()[place.removeprefix("airflow_samza.")]
    return shown.final_target if shown.is_alias else shown


def entry(place: str) -> str:
    """Return the entry of a public name.

    Headings have the names of methods with those of their classes, so that anchors differ and say of which class.
    """
    shown = found(place)
    parts = [f"### `{shown.name}`", *_described(shown, shown.name)]
    if isinstance(shown, Class) and shown.name not in WITHOUT_MEMBERS:
        members: list[Any] = list(_members(shown))
        short = [member for member in members if isinstance(member, Attribute) and "\n\n" not in _text(member)]
        if short:
            parts += ["Attributes:", "\n".join(map(_attribute, short))]
        for member in members:
            if member not in short:
                parts += [f"#### `{shown.name}.{member.name}`", *_described(member, member.name)]
    return "\n\n".join(parts)


def _members(shown: Class) -> Iterator[Any]:
    members: Any = shown.all_members if shown.name in WITH_INHERITED else shown.members
    for name, member in members.items():
        real = member.final_target if member.is_alias else member
        if not name.startswith("_") and name not in CALLED_BY_AIRFLOW and real.docstring is not None:
            yield real


def _described(shown: Any, name: str) -> Iterator[str]:
    """Yield the signature of a class or function, its text, and a list of its parameters."""
    of: Any = shown
    if isinstance(shown, Class):
        of = (shown.all_members if shown.name in WITH_INHERITED else shown.members).get("__init__")
        of = of.final_target if of is not None and of.is_alias else of
    called = isinstance(of, Function) and shown.name not in MADE_BY_THE_PACKAGE
    parameters = [one for one in of.parameters if one.name not in ("self", "cls")] if called else []
    if isinstance(shown, Class):
        parameters = parameters or [one for one in shown.parameters if called and one.name != "self"]
    if called and (parameters or isinstance(shown, Function)):
        yield f"```python\n{_signature(name, parameters, shown)}\n```"
    by_name = {one.name: one for one in parameters}
    for section in shown.docstring.parse("auto") if shown.docstring is not None else ():
        if section.kind is DocstringSectionKind.text:
            yield section.value.strip()
        elif section.kind is DocstringSectionKind.parameters:
            rows = [_parameter(by_name.get(one.name), one) for one in section.value]
            yield "Parameters:\n\n" + "\n".join(rows)
        elif section.kind is DocstringSectionKind.raises:
            rows = [f"- `{one.annotation}`: {' '.join(one.description.split())}" for one in section.value]
            yield "Raises:\n\n" + "\n".join(rows)
        else:
            raise AssertionError(f"{shown.path}: a part {section.kind.value} of a docstring has no form here")


def _signature(name: str, parameters: list[Parameter], shown: Any) -> str:
    returned = f" -> {shown.returns}" if isinstance(shown, Function) and shown.returns is not None else ""
    prefix = "async " if "async" in shown.labels else ""
    texts = []
    starred = False
    for one in parameters:
        if one.kind is Kind.keyword_only and not starred:
            texts.append("*")
        starred = starred or one.kind in (Kind.keyword_only, Kind.var_positional)
        star = "*" if one.kind is Kind.var_positional else "**" if one.kind is Kind.var_keyword else ""
        annotation = f": {one.annotation}" if one.annotation is not None else ""
        variadic = bool(star)
        default = "" if one.default is None or variadic else f" = {one.default}" if annotation else f"={one.default}"
        texts.append(f"{star}{one.name}{annotation}{default}")
    line = f"{prefix}{name}({', '.join(texts)}){returned}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{prefix}{name}(", *(f"    {text}," for text in texts), f"){returned}"])


def _parameter(parameter: Parameter | None, described: Any) -> str:
    annotation = parameter.annotation if parameter is not None else described.annotation
    default = parameter.default if parameter is not None else described.default
    variadic = parameter is not None and parameter.kind in (Kind.var_positional, Kind.var_keyword)
    facts = [f"`{annotation}`"] if annotation is not None else []
    facts += [f"default `{default}`"] if default is not None and not variadic else []
    said = " ".join(described.description.split())
    return f"- `{described.name}`{' (' + ', '.join(facts) + ')' if facts else ''}: {said}"


def _text(shown: Any) -> str:
    return str(shown.docstring.value)


def _attribute(shown: Any) -> str:
    annotation = f" (`{shown.annotation}`)" if shown.annotation is not None else ""
    return f"- `{shown.name}`{annotation}: {' '.join(_text(shown).split())}"
