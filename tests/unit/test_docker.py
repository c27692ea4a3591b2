"""The image and the Compose file: valid by the Compose specification, and about files that exist."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_samza.launch.class_archive import MAKER, VARIABLE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
COMPOSE = ROOT / "docker" / "compose.yaml"
STACK = ROOT / "docker" / "stack.env"


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


def services() -> dict[str, Any]:
    found: dict[str, Any] = compose()["services"]
    return found


def stack_environment() -> dict[str, str]:
    """The variables of docker/stack.env."""
    lines = [line for line in STACK.read_text().splitlines() if line and not line.startswith("#")]
    return {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines)}


def environment_of(service: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a service, with Compose's variables and their defaults put in."""
    return {
        name: re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1], found[2]), value)
        for name, value in services()[service]["environment"].items()
    }


def test_what_the_compose_file_names_exists() -> None:
    ours = [service for service in services().values() if "build" in service]
    assert len(ours) == 4
    for service in ours:
        context = (COMPOSE.parent / service["build"]["context"]).resolve()
        assert context == ROOT
        assert (context / service["build"]["dockerfile"]).samefile(DOCKERFILE)
    sources = {volume.split(":")[0] for each in services().values() for volume in each.get("volumes", ())}
    assert {source for source in sources if "/" not in source} == set(compose()["volumes"])
    for source in sources:
        assert "/" not in source or (COMPOSE.parent / source).is_dir(), source


def test_the_image_lacks_tests_and_headers_of_packages_and_nothing_else(tmp_path: Path) -> None:
    (command,) = (rest for word, rest in instructions() if word == "RUN" and "requirements.txt" in rest)
    kept = ["jinja2/tests.py", "pyspark/mllib/stat/test.py", "pyspark/licenses/LICENSE", "test/__init__.py", "a/b/c.so"]
    gone = ["numpy/tests/data/a.npy", "numpy/_core/include/numpy/a.h", "pyarrow/lib.pxd", "pyspark/examples/a.py"]
    gone += ["sklearn/tests/include/test.py", "py4j/test/a.py"]
    for name in (*kept, *gone):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    removing = [part for part in command.split("&& ") if part.startswith("find ")]
    done = subprocess.run(["sh", "-ec", "\n".join(removing)], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == set(kept)


def test_what_listens_is_reachable_from_this_machine_only() -> None:
    ports = [port for service in services().values() for port in service.get("ports", ())]
    assert len(ports) > 8
    assert all(port.startswith("127.0.0.1:") for port in ports)
    on_this_machine = [port.split(":")[1] for port in ports]
    assert len(set(on_this_machine)) == len(on_this_machine)


def test_every_service_says_whether_it_is_healthy_and_has_a_pinned_version() -> None:
    for name, service in services().items():
        assert {"test", "interval", "retries"} <= set(service["healthcheck"]), name
        assert "build" in service or re.search(r":(\d+\.\d+\.\d+|\d+\.\d+-|RELEASE\.)", service["image"]), name


def test_servers_start_only_where_they_are_asked_for() -> None:
    profiles = {name: service["profiles"] for name, service in services().items() if "profiles" in service}
    assert {profile for (profile,) in profiles.values()} == {"postgres", "redis", "spark", "kafka", "s3", "hdfs"}
    assert set(services()) - set(profiles) == {"airflow"}
    needed = services()["airflow"]["depends_on"].values()
    assert all(each == {"condition": "service_healthy", "required": False} for each in needed)


def test_the_stack_starts_all_profiles_but_that_of_hdfs() -> None:
    profiles = {service["profiles"][0] for service in services().values() if "profiles" in service}
    assert set(stack_environment()["COMPOSE_PROFILES"].split(",")) == profiles - {"hdfs"}


def test_every_variable_of_the_stack_is_one_of_the_compose_file() -> None:
    asked = set(re.findall(r"\$\{(\w+):-", COMPOSE.read_text()))
    assert set(stack_environment()) == {*asked, "COMPOSE_PROFILES"}


def test_the_parts_of_airflow_are_started_as_bash_understands() -> None:
    command = stack_environment()["AIRFLOW_COMMAND"]
    assert subprocess.run(["bash", "-n", "-c", command]).returncode == 0
    assert {"scheduler", "dag-processor", "triggerer", "api-server"} <= set(command.split())


def connections(variables: Mapping[str, str]) -> dict[str, Any]:
    """The connections of the service ``airflow``, as Airflow reads them."""
    from airflow.sdk import Connection

    return {
        name.removeprefix("AIRFLOW_CONN_").lower(): (
            Connection.from_json(value, conn_id=name) if value.startswith("{") else Connection.from_uri(value, name)
        )
        for name, value in environment_of("airflow", variables).items()
        if name.startswith("AIRFLOW_CONN_")
    }


def test_alone_airflow_has_its_root_and_results_on_a_volume() -> None:
    found = connections({})
    assert found["samza_default"].extra_dejson == {"root": "/srv/samza"}
    assert found["flights_warehouse"].extra_dejson == {"path": "/srv/samza/warehouse"}
    assert any(volume.endswith(":/srv/samza") for volume in services()["airflow"]["volumes"])


def test_in_the_stack_airflow_uses_the_services_by_their_names() -> None:
    variables = stack_environment()
    found = connections(variables)
    root = found["samza_default"].extra_dejson
    assert root["root"] == "s3://samza/samza"
    store = found[root["root_conn_id"]]
    s3 = services()["s3"]
    keys = (s3["environment"]["MINIO_ROOT_USER"], s3["environment"]["MINIO_ROOT_PASSWORD"])
    assert (store.conn_type, store.login, store.password) == ("aws", *keys)
    assert store.extra_dejson["endpoint_url"] == "http://s3:9000"
    assert "mkdir -p /data/samza " in s3["entrypoint"][-1]  # a folder there is a bucket
    spark = found[root["spark_conn_id"]]
    assert f"{spark.host}:{spark.port}" == services()["spark-worker"]["command"][-1]
    kafka = services()["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"PLAINTEXT://{found['flights_kafka'].extra_dejson['bootstrap.servers']}," in kafka
    environment = environment_of("worker", variables)
    assert environment == environment_of("airflow", variables)
    postgres = services()["postgres"]["environment"]
    user, password, database = (postgres[f"POSTGRES_{name}"] for name in ("USER", "PASSWORD", "DB"))
    url = f"postgresql+psycopg2://{user}:{password}@postgres/{database}"
    assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == url
    assert environment["AIRFLOW__CELERY__RESULT_BACKEND"] == f"db+{url}"
    assert environment["AIRFLOW__CELERY__BROKER_URL"].startswith("redis://redis:6379/")


def test_hdfs_has_the_address_that_its_page_names() -> None:
    hdfs = services()["hdfs"]
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


def test_what_the_package_is_built_without_does_not_come_into_the_image() -> None:
    """The sources of the page are 120 MB with the packages of Node that build it."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    left_out = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"]
    hidden = [line.strip("/") for line in (ROOT / ".dockerignore").read_text().splitlines()]
    assert left_out
    assert [folder for folder in left_out if folder.strip("/") not in hidden] == []


def test_the_image_runs_as_a_user_of_its_own_on_a_python_of_one_digest() -> None:
    found = instructions()
    base = next(rest for word, rest in found if word == "FROM")
    assert re.fullmatch(r"python:3\.1[0-9]-slim-\w+@sha256:[0-9a-f]{64}", base), "its tag names another image next week"
    tag = base.partition("@")[0]
    assert f"imagetools inspect {tag} " in DOCKERFILE.read_text()  # how the digest of the same tag is found anew
    users = [rest for word, rest in found if word == "USER"]
    assert users[-1:] == ["airflow"]


def test_the_image_installs_nothing_from_an_index_without_its_hash() -> None:
    installs = [rest for word, rest in instructions() if word == "RUN" and "pip install" in rest]
    assert len(installs) == 2
    assert all("--require-hashes" in rest or "--no-deps /src" in rest for rest in installs)


def test_the_connection_of_the_image_is_one_that_the_provider_knows() -> None:
    variables = next(rest for word, rest in instructions() if word == "ENV")
    text = re.search(r'AIRFLOW_CONN_SAMZA_DEFAULT="(.*)"', variables)
    assert text is not None
    connection = json.loads(text[1].replace('\\"', '"'))
    from airflow_samza.provider.get_provider_info import get_provider_info

    kind = get_provider_info()["connection-types"][0]
    assert connection["conn_type"] == kind["connection-type"]
    assert set(connection["extra"]) <= set(kind["conn-fields"])


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


SCRIPTS = [".ci/run", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "scripts").glob("*.sh")))]


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_bash_that_can_be_read_and_started(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111, f"{script} is not executable"
    assert subprocess.run(["bash", "-n", str(path)]).returncode == 0
    assert "set -euo pipefail" in path.read_text()
