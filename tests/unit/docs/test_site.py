"""The site of docs/: every page has a place, and its reference holds every public name, key, option and error.

``make docs`` builds it, and rejects broken links and whatever would be loaded from another host.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from griffe import Class, Docstring, DocstringSectionKind

import airflow_samza
from airflow_samza import config, errors
from airflow_samza.cli.app import app
from airflow_samza.provider.get_provider_info import CONFIG_SECTION, get_provider_info
from airflow_samza.provider.stats import COUNTERS, METRICS, gauges_of
from scripts.site import generated, reference
from scripts.site.docstrings import SHOWN, PlainDocstrings
from scripts.site.hooks import ROOT_PAGES, boxes, moved, search_of, slug
from scripts.site.public_names import CALLED_BY_AIRFLOW, MADE_BY_THE_PACKAGE, found as found_name
from tests.support.syntax_trees import parsed
from tests.unit.docs.test_commands import problem
from tests.unit.docs.test_metrics_page import FULL as FULL_REPORT
from tests.unit.provider.test_import_paths import FIRST_NAMES, HOMES

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
SETTINGS: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
TRIGGERS_OF_OPERATORS = {name for name, home in HOMES.items() if home.endswith("triggers")} - {"KafkaMessagesTrigger"}


def places(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        yield from (place for value in nav.values() for place in places(value))
    elif isinstance(nav, list):
        yield from (place for value in nav for place in places(value))


def documented() -> list[str]:
    """Return the names that the pages of the reference show."""
    pages = sorted((DOCS / "reference").glob("*.md"))
    return [name for page in pages for name in SHOWN.findall(page.read_text(encoding="utf-8"))]


def test_every_page_has_one_place_in_the_navigation() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} | set(ROOT_PAGES.values())
    outside = {page for page in pages if re.match(r"decisions/\d", page)}
    assert sorted(places(SETTINGS["nav"])) == sorted(pages - outside)


@pytest.mark.parametrize(
    "section", [next(iter(section)) for section in SETTINGS["nav"] if "index.md" not in section.values()]
)
def test_a_page_lies_in_the_folder_of_its_section(section: str) -> None:
    (under,) = [entry[section] for entry in SETTINGS["nav"] if section in entry]
    folders = {place.partition("/")[0] for place in places(under) if "/" in place}
    assert folders - {"decisions", "how-to-add"} == {section.lower().replace(" ", "-")}


def test_the_reference_has_every_public_name_once() -> None:
    homes = {**dict.fromkeys(airflow_samza.__all__, "airflow_samza"), **HOMES}
    public = {f"{home}.{name}" for name, home in homes.items() if name not in FIRST_NAMES}
    hidden = {f"airflow_samza.triggers.{name}" for name in TRIGGERS_OF_OPERATORS}
    assert sorted(documented()) == sorted(public - hidden)


def test_the_reference_has_every_error_class_and_what_it_is_for() -> None:
    rows = re.findall(
        r"^\| (?:&ensp;)*`(\w+)` \| `([\w-]+)` \| (.+?) \|", reference.error_classes(), flags=re.MULTILINE
    )
    kinds = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.SamzaError)
    }
    assert sorted(name for name, _, _ in rows) == sorted(kinds - {"SamzaError"})


@pytest.mark.extended
def test_parameters_of_the_reference_are_described_and_their_defaults_readable() -> None:
    lacking, unreadable = [], []
    for place in documented():
        shown = found_name(place)
        found = [(shown, shown.docstring)] if shown.is_function else []
        if shown.is_class:
            methods = [one for name, one in shown.members.items() if one.is_function and not name.startswith("_")]
            found = [(one, one.docstring) for one in methods if one.name not in CALLED_BY_AIRFLOW]
            if "__init__" in shown.members and shown.name not in MADE_BY_THE_PACKAGE:
                found.append((shown.members["__init__"], shown.docstring))
        for function, docstring in found:
            text = docstring.value if docstring is not None else ""
            names = [one.name for one in function.parameters if one.name not in ("self", "cls")]
            known = re.findall(r"^:param (\w+): \S", text, flags=re.MULTILINE)
            if len(names) > 2 and "The other parameters are those of" not in " ".join(text.split()):
                lacking += [f"{place} {function.name} {name}" for name in names if name not in known]
            unreadable += [
                f"{place} {one.name}" for one in function.parameters if re.fullmatch(r"[A-Z_]+", str(one.default))
            ]
    assert lacking == []
    assert unreadable == []


def test_the_reference_has_every_configuration_key() -> None:
    found = list(reference.configuration_keys())
    assert [key.name for key in found if not key.meaning or not key.default] == []
    assert len({key.name for key in found}) == len(found)
    shown = {key.name for key in found}
    keys = {value for value in vars(config).values() if isinstance(value, str) and reference.KEY.fullmatch(value)}
    assert keys <= shown
    patterns = [pattern for pattern in vars(config).values() if isinstance(pattern, re.Pattern)]
    assert len(patterns) == 6
    for pattern in patterns:
        assert any(pattern.fullmatch(key) for key in shown), pattern


def test_the_reference_has_every_option_of_airflow() -> None:
    options = get_provider_info()["config"][CONFIG_SECTION]["options"]
    assert re.findall(r"^\| `(\w+)` \|", reference.settings(), flags=re.MULTILINE) == list(options)


def test_the_reference_has_every_field_of_the_connection() -> None:
    kind = get_provider_info()["connection-types"][0]
    assert re.findall(r"^\| `(\w+)` \|", reference.connections(), flags=re.MULTILINE) == list(kind["conn-fields"])


def test_the_reference_has_every_command() -> None:
    headings = set(re.findall(r"^#+ `airflow-samza (.+)`$", reference.command_line(), flags=re.MULTILINE))
    assert {"plan", "run", "status", "topics", "topics list", "state abandon", "tables versions"} <= headings


def test_the_reference_has_every_option_and_an_example_of_each_command() -> None:
    text = reference.command_line()
    root: Any = typer.main.get_command(app)
    found = [command for _, command in reference.commands(root, "airflow-samza") if not hasattr(command, "commands")]
    assert len(found) > 25
    options = {
        name for command in found for one in command.params if one.param_type_name == "option" for name in one.opts
    }
    assert [name for name in sorted(options) if f"`{name}`" not in text] == []
    examples = re.findall(r"^```console\n(.+)\n```$", text, flags=re.MULTILINE)
    assert len(examples) == len(found)
    assert [(example, why) for example in examples if (why := problem(example)) is not None] == []


def test_the_reference_has_every_metric_that_is_sent() -> None:
    assert re.findall(r"^\| `(\w+)` \|", reference.metrics(), flags=re.MULTILINE) == list(METRICS)
    assert {gauge.name for gauge in gauges_of(FULL_REPORT)} == set(METRICS)
    assert [name for name, metric in METRICS.items() if not metric.unit or not metric.meaning] == []
    tagged = {(gauge.name, tag) for gauge in gauges_of(FULL_REPORT) for tag in gauge.tags}
    assert tagged == {(name, metric.tag) for name, metric in METRICS.items() if metric.tag}


def test_the_reference_has_every_counter_of_the_engine() -> None:
    described = {name.partition("<")[0].rstrip("._") for name in COUNTERS}
    stats = ROOT / "airflow_samza/provider/stats.py"
    others = [path for path in (ROOT / "airflow_samza").rglob("*.py") if path != stats]
    source = "\n".join(path.read_text(encoding="utf-8") for path in others)
    counted = {
        str(key.value).partition("{")[0].rstrip("._")
        for path in [*(ROOT / "airflow_samza/task").rglob("*.py"), ROOT / "airflow_samza/storage/snapshots.py"]
        for function in ast.walk(parsed(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef) and function.name in ("metrics", "facts")
        for found in ast.walk(function)
        if isinstance(found, ast.Dict)
        for key in found.keys
        if isinstance(key, ast.Constant)
    }
    assert {"late_messages", "remote_calls", "restored_from_host_bytes"} <= counted <= described
    assert [name for name in described if f'"{name}' not in source.replace('f"', '"')] == []


def test_a_parameter_in_the_last_line_of_a_docstring_is_shown_as_one() -> None:
    documented = Class("Rollback")
    documented.docstring = Docstring("Make older rows current.\n\n:param to: The version.", parent=documented)
    PlainDocstrings().on_object(obj=documented)
    sections = documented.docstring.parse("auto")
    assert [section.kind for section in sections] == [DocstringSectionKind.text, DocstringSectionKind.parameters]


def parts() -> list[tuple[str, str]]:
    """Return the parts of pages that are made from the code: name, and what is committed."""
    return [part for page in generated.pages() for part in generated.parts(page.read_text(encoding="utf-8"))]


def test_every_part_that_can_be_made_is_on_a_page_once() -> None:
    assert sorted(name for name, _ in parts()) == sorted([*reference.GENERATED, *documented()])


@pytest.mark.parametrize("name", reference.GENERATED)
def test_tables_of_the_reference_are_current(name: str) -> None:
    assert dict(parts())[name] == reference.GENERATED[name](), "make reference writes it anew"


def test_entries_of_public_names_are_current() -> None:
    shown = dict(parts())
    old = [name for name in documented() if shown[name] != generated.made(name)]
    assert old == [], "make reference writes them anew"


def headings(text: str) -> list[str]:
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.findall(r"^#+ (.*)$", prose, flags=re.MULTILINE)


@pytest.mark.parametrize("page", sorted(path.name for path in (DOCS / "reference").glob("*.md")))
def test_headings_of_a_page_of_the_reference_have_anchors_of_their_own(page: str) -> None:
    anchors = [slug(heading) for heading in headings((DOCS / "reference" / page).read_text(encoding="utf-8"))]
    assert len(set(anchors)) == len(anchors)


def rules_of_errors() -> set[str]:
    """Return the rules of all error classes of the package, wherever they are defined."""
    return {
        str(node.value.value)
        for path in (ROOT / "airflow_samza").rglob("*.py")
        for kind in ast.walk(parsed(path.read_text(encoding="utf-8")))
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        if [getattr(target, "id", "") for target in getattr(node, "targets", [getattr(node, "target", None)])]
        == ["rule"]
    }


def test_every_rule_of_an_error_has_an_entry_and_every_entry_a_rule() -> None:
    text = (ROOT / errors.ERRORS_PAGE).read_text(encoding="utf-8")
    shown = headings(text.partition("\n## Rules\n")[2])
    assert shown == [f"`{rule}`" for rule in sorted(rules_of_errors())]


def test_the_address_of_an_error_is_the_anchor_of_its_rule() -> None:
    page, _, anchor = errors.UnknownName("There is no column 'x'.").entry.partition("#")
    assert anchor in {slug(heading) for heading in headings((ROOT / page).read_text(encoding="utf-8"))}


@pytest.mark.parametrize(
    ("page", "uri", "link", "shown"),
    [
        ("README.md", "index.md", "docs/concepts/modes.md#epochs", "concepts/modes.md#epochs"),
        ("README.md", "index.md", "GLOSSARY.md", "glossary.md"),
        ("docs/reference/semantics.md", "reference/semantics.md", "../../GLOSSARY.md", "../glossary.md"),
        ("docs/how-to/kafka.md", "how-to/kafka.md", "../../dags/kafka_live.py", "../source/dags/kafka_live.py.md"),
        ("docs/concepts/modes.md", "concepts/modes.md", "../reference/semantics.md#p7", "../reference/semantics.md#p7"),
        ("docs/concepts/modes.md", "concepts/modes.md", "https://example.com/x", "https://example.com/x"),
    ],
)
def test_a_link_leads_to_the_place_of_its_file_on_the_site(page: str, uri: str, link: str, shown: str) -> None:
    assert moved(f"[it]({link})", ROOT / page, uri) == f"[it]({shown})"


def test_searches_find_how_to_and_errors_first_and_neither_decisions_nor_listings_of_code() -> None:
    found = {uri: search_of(uri) for uri in ("how-to/kafka.md", "reference/errors.md", "concepts/modes.md")}
    assert found == {
        "how-to/kafka.md": {"boost": 2},
        "reference/errors.md": {"boost": 2},
        "concepts/modes.md": {},
    }
    left_out = ["decisions/README.md", "source/dags/kafka_live.py.md"]
    assert all(search_of(uri) == {"exclude": True} for uri in left_out)


def test_the_picture_of_the_rooms_is_drawn_without_a_script() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    picture = re.search(r"```mermaid\n(.*?)```", text, flags=re.DOTALL)
    assert picture is not None
    assert boxes(picture).count("<li>") == picture[1].count('["')
