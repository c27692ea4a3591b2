"""The image and the Compose file: valid by the Compose specification, and about files that exist."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_samza.launch.class_archive import MAKER, VARIABLE

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
COMPOSE = ROOT / "docker" / "compose.yaml"


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return found


def instructions(text: str | None = None) -> list[tuple[str, str]]:
    """The Dockerfile's instructions, continuation lines joined."""
    lines = [
        line
        for line in (text or DOCKERFILE.read_text()).splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def check_by_schema(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_compose_file_follows_the_specification() -> None:
    done = check_by_schema(COMPOSE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_check_would_find_a_mistake(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("healthcheck:", "healthchecks:"))
    assert check_by_schema(wrong).returncode != 0


def test_what_the_compose_file_names_exists() -> None:
    service = compose()["services"]["airflow"]
    context = (COMPOSE.parent / service["build"]["context"]).resolve()
    assert context == ROOT
    assert (context / service["build"]["dockerfile"]).samefile(DOCKERFILE)
    sources = [volume.split(":")[0] for each in compose()["services"].values() for volume in each["volumes"]]
    assert {source for source in sources if "/" not in source} == set(compose()["volumes"])
    for source in sources:
        assert "/" not in source or (COMPOSE.parent / source).is_dir(), source


def test_what_listens_is_reachable_from_this_machine_only() -> None:
    assert all(port.startswith("127.0.0.1:") for service in compose()["services"].values() for port in service["ports"])


def test_hdfs_starts_only_where_it_is_asked_for() -> None:
    hdfs = compose()["services"]["hdfs"]
    assert hdfs["profiles"] == ["hdfs"]
    assert re.fullmatch(r"apache/hadoop:3\.\d+\.\d+", hdfs["image"])
    assert hdfs["environment"]["CORE-SITE.XML_fs.defaultFS"] == f"hdfs://{hdfs['hostname']}:8020"


def copied_sources() -> list[str]:
    copies = [rest.split() for word, rest in instructions() if word == "COPY"]
    return [word for words in copies for word in words[:-1] if not word.startswith("--")]


def test_the_image_copies_files_that_exist_and_that_the_build_can_see() -> None:
    allowed = [
        line[1:].rstrip("/") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    ]
    assert copied_sources()
    for source in copied_sources():
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in allowed), f"{source} is hidden by .dockerignore"


def test_the_image_runs_as_a_user_of_its_own_on_a_pinned_python() -> None:
    found = instructions()
    base = next(rest for word, rest in found if word == "FROM")
    assert re.fullmatch(r"python:3\.1[0-9]-slim-\w+", base), "a base without a version changes under our feet"
    users = [rest for word, rest in found if word == "USER"]
    assert users[-1:] == ["airflow"]
    assert all(
        "constraint" in rest or "--no-deps" in rest for word, rest in found if word == "RUN" and "pip install" in rest
    )


def test_the_connection_of_the_image_is_one_that_the_provider_knows() -> None:
    variables = next(rest for word, rest in instructions() if word == "ENV")
    text = re.search(r'AIRFLOW_CONN_SAMZA_DEFAULT="(.*)"', variables)
    assert text is not None
    connection = json.loads(text[1].replace('\\"', '"'))
    from airflow_samza.provider.get_provider_info import get_provider_info

    (kind,) = get_provider_info()["connection-types"]
    assert connection["conn_type"] == kind["connection-type"]
    assert set(connection["extra"]) <= set(kind["conn-fields"])
    assert any(
        volume.endswith(f":{connection['extra']['root']}") for volume in compose()["services"]["airflow"]["volumes"]
    )


def test_the_image_has_an_archive_of_sparks_classes_where_its_setting_says() -> None:
    found = instructions()
    setting = re.search(rf"{VARIABLE}=(\S+)", next(rest for word, rest in found if word == "ENV"))
    assert setting is not None
    assert any(
        word == "RUN" and "install --directory --owner airflow" in rest and setting[1] in rest.split()
        for word, rest in found
    )
    made = found.index(("RUN", f"python -m {MAKER} {setting[1]}"))
    assert ("USER", "airflow") in found[:made]  # who runs stages owns it


@pytest.mark.parametrize("script", ["scripts/setup.sh", "scripts/setup-browser.sh", "scripts/setup-jars.sh", ".ci/run"])
def test_scripts_are_bash_that_can_be_read_and_started(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111, f"{script} is not executable"
    assert subprocess.run(["bash", "-n", str(path)]).returncode == 0
    assert "set -euo pipefail" in path.read_text()
