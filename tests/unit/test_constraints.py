"""The versions of dependencies: one list in three files, with hashes where a file is installed as it stands.

Decision 101.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.test_packaging import PROJECT, PYTHONS

ROOT = Path(__file__).parents[2]
HASHED = ("requirements.txt", "docker/requirements.txt")

Pins = dict[str, list[tuple[str, Marker | None]]]


def pins_in(text: str) -> Pins:
    """The versions of each package, with the marker that says where each counts."""
    found: Pins = {}
    for line in text.splitlines():
        if line and not line.startswith(" "):
            one = Requirement(line.removesuffix("\\"))
            (specifier,) = one.specifier
            assert specifier.operator == "=="
            found.setdefault(one.name, []).append((specifier.version, one.marker))
    return found


def chosen(pins: Pins, python: str, platform: str, machine: str) -> dict[str, str]:
    """The versions that pip takes on a machine."""
    system = {"linux": "Linux", "darwin": "Darwin"}[platform]
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": platform,
        "platform_system": system,
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "os_name": "posix",
    }
    found: dict[str, str] = {}
    for name, versions in pins.items():
        fitting = [version for version, marker in versions if marker is None or marker.evaluate(environment)]
        assert len(fitting) <= 1, (name, fitting)
        if fitting:
            found[name] = fitting[0]
    return found


CONSTRAINTS = pins_in((ROOT / "constraints.txt").read_text())


@pytest.mark.parametrize("file", HASHED)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("platform", "machine"), [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")])
def test_what_is_installed_with_hashes_has_the_versions_of_the_constraints(
    file: str, python: str, platform: str, machine: str
) -> None:
    hashed = chosen(pins_in((ROOT / file).read_text()), python, platform, machine)
    known = chosen(CONSTRAINTS, python, platform, machine)
    assert len(hashed) > 100
    assert {name: (version, known.get(name)) for name, version in hashed.items() if known.get(name) != version} == {}


def wanted_by(*extras: str) -> list[Requirement]:
    """The requirements of the package with extras, and of the extras that these name."""
    project = PROJECT["project"]
    found = [Requirement(text) for text in project["dependencies"]]
    waiting, known = list(extras), set(extras)
    while waiting:
        for one in map(Requirement, project["optional-dependencies"][waiting.pop()]):
            if one.name == "airflow-samza":
                waiting += one.extras - known
                known |= one.extras
            else:
                found.append(one)
    return found


@pytest.mark.parametrize(
    ("file", "extras"),
    [
        ("constraints.txt", tuple(PROJECT["project"]["optional-dependencies"])),
        ("requirements.txt", ("dev",)),
        ("docker/requirements.txt", ("avro", "s3", "kafka")),
    ],
)
@pytest.mark.parametrize("python", PYTHONS)
def test_each_file_has_what_the_package_requires(file: str, extras: tuple[str, ...], python: str) -> None:
    pins = chosen(pins_in((ROOT / file).read_text()), python, "linux", "x86_64")
    wanted = [
        one for one in wanted_by(*extras) if one.marker is None or one.marker.evaluate({"python_version": python})
    ]
    lacking = [str(one) for one in wanted if not one.specifier.contains(pins.get(canonicalize_name(one.name), "0"))]
    assert lacking == [], "make constraints resolves them"


@pytest.mark.parametrize("file", HASHED)
def test_every_requirement_has_hashes(file: str) -> None:
    text = (ROOT / file).read_text()
    entries = re.findall(r"^\S.*(?:\n .*)*", text, re.MULTILINE)
    assert len(entries) == sum(map(len, pins_in(text).values()))
    assert [entry for entry in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}", entry)] == []


@pytest.mark.parametrize("name", ["numpy", "psutil", "pyarrow"])
def test_hashes_are_those_of_the_files_for_every_platform(name: str) -> None:
    entries = re.findall(rf"^{name}==.*(?:\n .*)*", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert entries
    assert all(entry.count("--hash=") > 10 for entry in entries)


@pytest.mark.parametrize("file", ["constraints.txt", *HASHED])
def test_no_file_names_an_index(file: str) -> None:
    assert re.findall(r"^--.*|\w+://\S*|^#.*", (ROOT / file).read_text(), re.MULTILINE) == []


def test_constraints_have_no_hashes_which_pip_would_then_ask_of_everything_else_too() -> None:
    assert "--hash" not in (ROOT / "constraints.txt").read_text()
