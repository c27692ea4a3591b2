"""Docstrings and signatures as the site shows them.

- Sphinx's roles, doctests and citations of rules become plain Markdown; a role that names a class of the reference
  becomes a link to its entry.
- ``**more: Unpack[Options]`` becomes the options, described by the docstrings below the attributes of ``Options``.
- A parameter that the docstring of a class lists for all of its methods is described at each of them.
- A class of the provider has the parameters of its base classes, too.
- A default that is a constant of the module is shown as its value.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from griffe import (
    Class,
    Docstring,
    ExprName,
    ExprSubscript,
    Extension,
    Function,
    Module,
    Object,
    Parameter,
    ParameterKind as Kind,
    Parameters,
)

REFERENCE = Path(__file__).parents[2] / "docs/reference"
ROLE = re.compile(r":[a-z]+:`(?:~[\w.]*\.)?([^`]+)`")
DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
CITATION = re.compile(r"\s\((?:see )?rules? [PCMS]\d[^)]*\)")
COMMON = re.compile(r"^- ``(\w+)``: ((?:.+\n?)(?:(?!- ).+\n?)*)", re.MULTILINE)
PARAMETER = re.compile(r"^:param (\w+):(?:.*\n?)(?:[ \t]+.*\n?)*", re.MULTILINE)
DEFAULT = re.compile(r"Default: ``(.+)``$")
SHOWN = re.compile(r"^<!-- generated: (airflow_samza\.\S+) -->$", re.MULTILINE)
"""The marks of public names on pages."""

ELSEWHERE = "The other parameters are those of"

KEYWORD_ONLY = Kind("keyword-only")

FIXED = {"SamzaStopOperator": {"action"}, "SamzaTableRollbackOperator": {"py_modules", "archives", "runner_python"}}
"""Parameters of base classes that a class sets itself, or has no use for."""


class PlainDocstrings(Extension):
    """Rewrites signatures and docstrings before they are parsed."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Complete the signatures of a package."""
        done: set[str] = set()
        found = list(_classes_and_functions(pkg))
        for function in found:
            if isinstance(function, Function):
                _unpack_options(function)
                _show_constants(function)
        for class_ in found:
            if isinstance(class_, Class):
                _describe_common_parameters(class_)
                _add_inherited_parameters(class_, done)

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite one object's docstring."""
        if obj.docstring is not None:
            text = CITATION.sub("", ROLE.sub(_linked, obj.docstring.value))
            # The style is recognized by a field that a line break follows, also where it is the last line.
            obj.docstring.value = DOCTEST.sub(lambda lines: f"```pycon\n{lines[0]}\n```", text) + "\n"


def _classes_and_functions(within: Object) -> Iterator[Class | Function]:
    for member in within.members.values():
        if member.is_alias:
            continue
        if isinstance(member, Function):
            yield member
        elif isinstance(member, Class):
            yield from _classes_and_functions(member)
            yield member
        elif isinstance(member, Module):
            yield from _classes_and_functions(member)


@cache
def _shown() -> dict[str, str]:
    """Return the names that pages of the reference show, with the addresses of their entries."""
    return {
        place.rpartition(".")[2]: f"{page.name}#{place.rpartition('.')[2].lower()}"
        for page in REFERENCE.glob("*.md")
        for place in SHOWN.findall(page.read_text(encoding="utf-8"))
    }


def _linked(role: re.Match[str]) -> str:
    name = role[1].rpartition(".")[2]
    return f"[`{name}`]({_shown()[name]})" if name in _shown() else f"`{role[1]}`"


def _unpack_options(function: Function) -> None:
    """Replace ``**more: Unpack[Options]`` by the options."""
    more = next((parameter for parameter in function.parameters if parameter.kind is Kind.var_keyword), None)
    if more is None or not isinstance(more.annotation, ExprSubscript) or str(more.annotation.left) != "Unpack":
        return
    options = function.modules_collection[more.annotation.slice.canonical_path]  # type: ignore[union-attr]
    del function.parameters[more.name]
    docstring = function.docstring
    known = set() if docstring is None else {name for name, _ in _described(docstring)}
    fields = []
    for name, option in options.attributes.items():
        said = " ".join(option.docstring.value.split()) if option.docstring is not None else ""
        default = DEFAULT.search(said)
        function.parameters.add(
            Parameter(name, annotation=option.annotation, kind=KEYWORD_ONLY, default=default[1] if default else "None")
        )
        if name not in known:
            fields.append(f":param {name}: {DEFAULT.sub('', said).rstrip()}")
    if docstring is not None and ELSEWHERE not in " ".join(docstring.value.split()):
        docstring.value = "\n".join([docstring.value, "", *fields])


def _show_constants(function: Function) -> None:
    """Show a default that is a constant of the module as its value."""
    for parameter in function.parameters:
        if isinstance(parameter.default, ExprName) and str(parameter.default).isupper():
            module = importlib.import_module(function.module.path)
            value = getattr(module, str(parameter.default), None)
            if isinstance(value, str | int | float):
                parameter.default = f'"{value}"' if isinstance(value, str) else repr(value)


def _describe_common_parameters(found: Class) -> None:
    """Describe the parameters of methods that the docstring of their class lists for all of them."""
    common = {
        name: " ".join(said.split()) for name, said in COMMON.findall(found.docstring.value if found.docstring else "")
    }
    for method in found.members.values() if common else ():
        if isinstance(method, Function) and method.docstring is not None and not method.name.startswith("_"):
            known = {name for name, _ in _described(method.docstring)}
            lacking = [one.name for one in method.parameters if one.name in common and one.name not in known]
            fields = [f":param {name}: {common[name][:1].upper()}{common[name][1:]}" for name in lacking]
            method.docstring.value = "\n".join([method.docstring.value, *([""] if not known else []), *fields])


def _add_inherited_parameters(found: Object, done: set[str]) -> None:
    """Add the parameters that base classes describe to a class that passes ``**kwargs`` on; required ones first."""
    init = found.members.get("__init__")
    if found.path in done or not isinstance(init, Function) or found.docstring is None:
        return
    done.add(found.path)
    rest = next((parameter for parameter in init.parameters if parameter.kind is Kind.var_keyword), None)
    if rest is None or not found.path.startswith("airflow_samza.provider."):
        return
    described = dict(_described(found.docstring))
    parameters = {parameter.name: parameter for parameter in init.parameters if parameter is not rest}
    for base in found.resolved_bases if isinstance(found, Class) else ():
        above = base.members.get("__init__")
        if not isinstance(above, Function) or base.docstring is None:
            continue
        _add_inherited_parameters(base, done)
        for name, text in _described(base.docstring):
            if name in FIXED.get(found.name, ()):
                continue
            described.setdefault(name, text)
            if name in above.parameters and name != rest.name and name not in parameters:
                inherited = above.parameters[name]
                parameters[name] = Parameter(
                    name, annotation=inherited.annotation, kind=KEYWORD_ONLY, default=inherited.default
                )
    ordered = sorted(
        parameters.values(), key=lambda parameter: parameter.kind is KEYWORD_ONLY and not parameter.required
    )
    init.parameters = Parameters(*ordered, rest)
    places = {parameter.name: place for place, parameter in enumerate(init.parameters)}
    fields = sorted(described, key=lambda name: places.get(name, len(places)))
    text = PARAMETER.sub("", found.docstring.value).rstrip()
    found.docstring.value = "\n".join([text, "", *(described[name] for name in fields)])


def _described(docstring: Docstring) -> list[tuple[str, str]]:
    """Return the parameters that a docstring describes, each with the lines that do."""
    return [(field[1], field[0].rstrip()) for field in PARAMETER.finditer(docstring.value)]
