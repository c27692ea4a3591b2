"""Issue forms as GitHub takes them, and files that they and the code of conduct name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / ".github" / "ISSUE_TEMPLATE"
FORMS = sorted(path for path in TEMPLATES.glob("*.yml") if path.name != "config.yml")

_TEXT = {"type": "string", "minLength": 1}


def _element(kind: str, attributes: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """A part of a form, by GitHub's description of its schema (syntax for GitHub's form schema, in its documentation)."""
    properties: dict[str, Any] = {
        "type": {"const": kind},
        "attributes": {"type": "object", "properties": attributes, "required": required, "additionalProperties": False},
    }
    if kind != "markdown":
        properties["id"] = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}
    if kind not in ("markdown", "checkboxes"):
        properties["validations"] = {
            "type": "object",
            "properties": {"required": {"type": "boolean"}},
            "additionalProperties": False,
        }
    return {
        "type": "object",
        "properties": properties,
        "required": ["type", "attributes"],
        "additionalProperties": False,
    }


_ASKING = {"label": _TEXT, "description": {"type": "string"}}
_TYPED = {**_ASKING, "placeholder": {"type": "string"}, "value": {"type": "string"}}
_CHECKBOX = {
    "type": "object",
    "properties": {"label": _TEXT, "required": {"type": "boolean"}},
    "required": ["label"],
    "additionalProperties": False,
}
ELEMENTS = {
    "markdown": _element("markdown", {"value": _TEXT}, ["value"]),
    "input": _element("input", _TYPED, ["label"]),
    "textarea": _element("textarea", {**_TYPED, "render": _TEXT}, ["label"]),
    "dropdown": _element(
        "dropdown",
        {
            **_ASKING,
            "multiple": {"type": "boolean"},
            "default": {"type": "integer"},
            "options": {"type": "array", "minItems": 1, "uniqueItems": True, "items": _TEXT},
        },
        ["label", "options"],
    ),
    "checkboxes": _element(
        "checkboxes", {**_ASKING, "options": {"type": "array", "minItems": 1, "items": _CHECKBOX}}, ["label", "options"]
    ),
}
FORM = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "description": _TEXT,
        "title": _TEXT,
        "labels": {"type": "array", "items": _TEXT},
        "body": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "properties": {"type": {"enum": list(ELEMENTS)}}, "required": ["type"]},
        },
    },
    "required": ["name", "description", "body"],
    "additionalProperties": False,
}


def check(form: Any) -> None:
    jsonschema.validate(form, FORM)
    for element in form["body"]:
        jsonschema.validate(element, ELEMENTS[element["type"]])
    asked = [element for element in form["body"] if element["type"] != "markdown"]
    assert asked, "GitHub takes no form without a field"
    for name in ("id", "label"):
        values = [element.get("id") if name == "id" else element["attributes"]["label"] for element in asked]
        assert len(set(values)) == len(values), f"GitHub takes no form with one {name} twice"


@pytest.mark.parametrize("form", FORMS, ids=lambda path: str(path.stem))
def test_forms_are_as_github_takes_them(form: Path) -> None:
    check(yaml.safe_load(form.read_text()))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("type: dropdown", "type: select"),
        ("id: executor", "id: spark"),
        ("label: Versions", "title: Versions"),
        ("description: Something", "about: Something"),
    ],
)
def test_the_check_finds_what_github_rejects(was: str, now: str) -> None:
    text = (TEMPLATES / "bug.yml").read_text()
    assert was in text
    with pytest.raises((jsonschema.ValidationError, AssertionError)):
        check(yaml.safe_load(text.replace(was, now, 1)))


def test_there_is_a_form_for_bugs_features_and_questions_and_nothing_goes_without_one() -> None:
    assert [form.stem for form in FORMS] == ["bug", "feature", "question"]
    chooser = yaml.safe_load((TEMPLATES / "config.yml").read_text())
    assert chooser["blank_issues_enabled"] is False
    for link in chooser["contact_links"]:
        assert set(link) == {"name", "url", "about"}
        assert link["url"].startswith("https://")


def test_the_places_in_which_stages_run_are_those_of_the_documentation() -> None:
    (dropdown,) = (
        element
        for element in yaml.safe_load((TEMPLATES / "bug.yml").read_text())["body"]
        if element["type"] == "dropdown"
    )
    pages = "".join((ROOT / "docs" / page).read_text() for page in ("operate/spark.md", "operate/spark-connect.md"))
    for option in dropdown["attributes"]["options"]:
        assert option.partition(" ")[0].lower() in pages.lower(), option


@pytest.mark.parametrize("file", [*FORMS, ROOT / "CODE_OF_CONDUCT.md", ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md"])
def test_files_that_are_named_exist(file: Path) -> None:
    for name in re.findall(r"[\w/.-]+\.(?:md|toml)\b", file.read_text()):
        assert any((folder / name).exists() for folder in (ROOT, file.parent)), name


def test_commands_that_are_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"`make ([a-z-]+)", (ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md").read_text())
    assert named
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in named)
