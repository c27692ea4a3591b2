"""Finds the cases of a folder.

Kinds are recognised by what a file holds; what is not recognised becomes a case that fails.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECTIONS = {
    "planner": ("planner",),
    "control": ("end_of_stream", "watermark", "checkpoint"),
    "chooser": ("sequences", "config"),
    "side_input": ("starting_offsets", "catch_up", "processing"),
}
"""The sections of each kind of file."""

KIND_OF_SECTION = {section: kind for kind, sections in SECTIONS.items() for section in sections}


@dataclass(frozen=True)
class ConformanceCase:
    """One case: where it stands, its kind and section, and its data; or ``problem``, why it cannot be run."""

    id: str
    section: str = ""
    data: Any = None
    problem: str = ""

    @property
    def kind(self) -> str:
        return KIND_OF_SECTION.get(self.section, "")


def find_cases(folder: Path) -> list[ConformanceCase]:
    """The cases of every file in the folder, in the order of the files' names.

    Folders in it hold prose and are left out.
    """
    if not folder.is_dir():
        return [ConformanceCase(str(folder), problem=f"{folder} is not a folder")]
    files = sorted(
        path for path in folder.iterdir() if path.is_file() and path.suffix != ".md" and not path.name.startswith(".")
    )
    if not files:
        return [ConformanceCase(str(folder), problem=f"{folder} holds no case files")]
    return [case for path in files for case in _cases_of(path)]


def _cases_of(path: Path) -> list[ConformanceCase]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return [ConformanceCase(path.name, problem=f"{path.name} cannot be read: {error}")]
    if not isinstance(content, dict):
        return [
            ConformanceCase(
                path.name, problem=f"{path.name} is a {type(content).__name__}, not an object with sections"
            )
        ]
    cases = []
    for section, found in content.items():
        where = f"{path.stem}:{section}"
        if section == "conventions":
            continue
        if section not in KIND_OF_SECTION:
            known = ", ".join(KIND_OF_SECTION)
            cases.append(
                ConformanceCase(where, problem=f"{path.name}: the section {section!r} is of no known kind ({known})")
            )
        elif not isinstance(found, list) or not found:
            cases.append(ConformanceCase(where, problem=f"{path.name}: the section {section!r} is not a list of cases"))
        else:
            cases.extend(_case(where, section, place, data) for place, data in enumerate(found))
    return cases or [ConformanceCase(path.name, problem=f"{path.name} holds no cases")]


def _case(where: str, section: str, place: int, data: object) -> ConformanceCase:
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        return ConformanceCase(f"{where}:{place}", problem=f"{where}: case {place} is not an object with a name")
    return ConformanceCase(f"{where}:{data['name']}", section, data)
