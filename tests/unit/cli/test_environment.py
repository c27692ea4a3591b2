from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_samza.cli.app import app
from airflow_samza.cli.environment import Environment, find_environment, parse_system, read_environment
from airflow_samza.errors import ConfigError

TOML = """
[env.dev]
root = "state"
default_system = "logs"

[env.dev.systems.logs]
kind = "files"
root = "landing/logs"
format = "json"

[env.dev.systems.events]
kind = "kafka"
password = { env = "EVENTS_PASSWORD" }

[env.dev.config]
job.intermediate.stream.partitions = 8
"task.chooser.wait.for.head" = "all"

[env.dev.spark]
spark.ui.enabled = false

[env.prod]
root = "hdfs:///samza"

[env.cloud]
root = "s3://bucket/samza"

[env.cloud.access]
region = "eu-central-1"
secret_access_key = { env = "EVENTS_PASSWORD" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "samza.toml"
    path.write_text(TOML)
    return path


def dev(file: Path) -> Environment:
    return read_environment(file, "dev", {"EVENTS_PASSWORD": "hunter2"})


def test_relative_roots_start_at_the_files_folder(file: Path) -> None:
    environment = dev(file)
    assert environment.root == str(file.parent / "state")
    assert environment.systems["logs"].options == {"root": str(file.parent / "landing/logs"), "format": "json"}
    assert read_environment(file, "prod").root == "hdfs:///samza"


def test_the_python_of_runners_may_lie_beside_the_file(file: Path) -> None:
    file.write_text(TOML.replace("[env.prod]", '[env.prod]\nrunner_python = "environment/bin/python"'))
    assert read_environment(file, "prod").runner_python == str(file.parent / "environment/bin/python")
    assert dev(file).runner_python == ""


def test_a_secret_comes_from_the_environment_and_is_never_shown(file: Path) -> None:
    environment = dev(file)
    assert environment.systems["events"].options["password"] == "hunter2"
    assert "hunter2" not in repr(environment)


def test_options_that_open_a_root_are_for_it_and_what_is_below(file: Path) -> None:
    def given(root: str | None) -> dict[str, object]:
        found = find_environment("cloud", file=file, root=root, variables={"EVENTS_PASSWORD": "hunter2"})
        assert "hunter2" not in repr(found)
        return dict(found.access.options)

    options = {"region": "eu-central-1", "secret_access_key": "hunter2"}
    assert given(None) == given("s3://bucket/samza/of-me") == options
    assert given("s3://bucket/samza2") == given("s3://other/samza") == given("/data/samza") == {}


def test_a_missing_variable_is_named_without_a_value(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"env\.dev\.systems\.events\.password .* EVENTS_PASSWORD, which is not set"):
        read_environment(file, "dev", {})


def test_settings_may_be_dotted_or_quoted_keys(file: Path) -> None:
    environment = dev(file)
    assert environment.config == {"job.intermediate.stream.partitions": "8", "task.chooser.wait.for.head": "all"}
    assert environment.spark_conf == {"spark.ui.enabled": "false"}


def test_the_command_line_wins_over_the_file(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environment = find_environment("prod", root="here", systems=["logs=files:/other"], config=["a.b=c=d"])
    assert environment.root == str(tmp_path / "here")
    assert environment.systems["logs"].options == {"root": "/other"}
    assert environment.config == {"a.b": "c=d"}


def test_the_file_is_found_in_a_folder_above(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert find_environment("prod").origin == f"[env.prod] of {file}"


def test_without_a_file_everything_lies_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_environment(None).root == str(tmp_path / ".samza")
    with pytest.raises(ConfigError, match=r"There is no samza\.toml in .* so there is no environment 'dev'") as caught:
        find_environment("dev")
    assert "[env.dev]" in caught.value.hint


def test_the_only_environment_needs_no_name(tmp_path: Path) -> None:
    path = tmp_path / "samza.toml"
    path.write_text('[env.only]\nroot = "/r"')
    assert read_environment(path, None).name == "only"


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        (TOML, None, "has several environments"),
        (TOML, "test", "has no environment 'test'"),
        ("", "dev", "has no environment"),
        ("env = 3", "dev", r"The key env in .* is not a table but a whole number"),
        ("env = [{root = 'x'}]", None, r"The key env in .* is not a table but a list"),
        ("[[env]]\nroot = 'x'", None, r"The key env in .* is not a table but a list"),
        ("[env]\ndev = 3", "dev", r"The key env\.dev in .* is not a table but a whole number"),
        ("[env]\ndev = 3", None, r"The key env\.dev in .* is not a table but a whole number"),
        ("[env]\nroot = '/x'\n[env.dev]\n", "dev", r"The key env\.root in .* is not a table but a text"),
        ("[[env.dev]]\nroot = 'x'", "dev", r"The key env\.dev in .* is not a table but a list"),
        ("[env.'']\n", "", "has an environment without a name"),
        ("[dev]\nroot = 'x'", "dev", "has no environment"),
        ("[env.dev]\n[systems.logs]\nkind = 'files'", "dev", r"The key systems in .* is not known"),
        ("a = " + "[" * 5000, None, "is nested too deeply"),
        ("[env.dev]\nroot = true", "dev", r"env\.dev\.root in .* is not a text but true or false"),
        ("[env.dev]\nroot = 2026-01-01", "dev", r"env\.dev\.root in .* is not a text but a date or time"),
        ("[env.dev]\nroot = ['x']", "dev", r"env\.dev\.root in .* is not a text but a list"),
        ("[env.dev]\ndefault_system = 1.5", "dev", r"env\.dev\.default_system in .* is not a text but a number"),
        ("[env.dev]\ndefault_system = ' '", "dev", r"env\.dev\.default_system in .* is empty"),
        ("[env.dev]\nconfig = 'x'", "dev", r"env\.dev\.config in .* is not a table but a text"),
        ("[env.dev]\nspark = true", "dev", r"env\.dev\.spark in .* is not a table but true or false"),
        (
            "[env.dev.spark]\nx = 2026-01-01T00:00:00",
            "dev",
            r"spark\.x in .* is not a text, a number or true or false but a date or time",
        ),
        ("[env.dev.config]\nx = {}", "dev", r"config\.x in .* is not a text, a number or true or false but a table"),
        ("[env.dev.config]\nx = nan", "dev", r"config\.x in .* is not a text, a number or true or false but nan"),
        ("[env.dev.systems.logs]\nkind = 3", "dev", r"systems\.logs\.kind in .* is not a text but a whole number"),
        ("[env.dev.systems.logs]\nkind = ''", "dev", r"systems\.logs\.kind in .* is empty"),
        ("[env.dev.systems.logs.kind]\nx = 1", "dev", r"systems\.logs\.kind in .* is not a text but a table"),
        (
            "[env.dev.systems.logs]\nkind = 'k'\nx = ['s3cret']",
            "dev",
            r"logs\.x in .* is not a text, a number or true or false but a list",
        ),
        (
            "[env.dev.systems.logs]\nkind = 'k'\np = { env = 5 }",
            "dev",
            r"logs\.p\.env in .* is not a text but a whole number",
        ),
        ("[env.dev.systems.logs]\nkind = 'k'\np = { env = 'A', x = 1 }", "dev", "is a table of an unknown form"),
        ("[env.dev", "dev", "is not TOML"),
        ("[env.dev]\nroots = 'x'", "dev", r"env\.dev\.roots in .* is not known"),
        ("[env.dev]\nroot = 5", "dev", r"env\.dev\.root in .* is not a text but a whole number"),
        ("[env.dev]\nroot = ''", "dev", r"env\.dev\.root in .* is empty"),
        ('[env.dev]\nroot = "a\\u0000b"', "dev", r"env\.dev\.root in .* holds a NUL character"),
        ("[env.dev.systems.logs]\nroot = '/x'", "dev", r"systems\.logs\.kind in .* is missing"),
        ("[env.dev]\nsystems = 5", "dev", r"env\.dev\.systems in .* is not a table"),
        ("[env.dev.systems]\nlogs = 'files'", "dev", r"systems\.logs in .* is not a table but a text"),
        ("[env.dev.systems.logs]\nkind = 'k'\np = { file = 'x' }", "dev", "is a table of an unknown form"),
        ("[env.dev.config]\na = [1]", "dev", r"config\.a in .* is not a text, a number"),
    ],
)
def test_a_bad_file_is_rejected_with_file_and_key(tmp_path: Path, text: str, name: str | None, sentence: str) -> None:
    path = tmp_path / "samza.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=sentence) as caught:
        read_environment(path, name, {})
    assert str(path) in caught.value.sentence
    assert caught.value.hint
    assert "s3cret" not in str(caught.value)


def test_a_dotted_key_may_have_a_thousand_parts(tmp_path: Path) -> None:
    key = ".".join(["a"] * 1000)  # readers of TOML for Python 3.10 and for the newest Pythons allow no more
    (tmp_path / "samza.toml").write_text(f"[env.dev.config]\n{key} = 1\nb.c = 2\nb.d = 3")
    assert read_environment(tmp_path / "samza.toml", "dev").config == {key: "1", "b.c": "2", "b.d": "3"}


def test_a_file_that_cannot_be_read_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_environment(tmp_path / "none.toml", None)
    (tmp_path / "samza.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not TOML"):
        read_environment(tmp_path / "samza.toml", None)


def test_a_system_on_the_command_line_may_have_a_url_or_no_root() -> None:
    assert parse_system("a=files:s3://bucket/x")[1].options == {"root": "s3://bucket/x"}
    assert parse_system("a=memory")[1].options == {}


def test_a_system_of_kafka_on_the_command_line_is_named_by_its_brokers() -> None:
    for brokers in ("one:9092", "one:9092,two:9092"):
        assert parse_system(f"events=kafka:{brokers}")[1].options == {"bootstrap.servers": brokers}


@pytest.mark.parametrize("option", ["", "logs", "logs=", "=files:/x", "logs=files:", "logs=:/x"])
def test_a_system_that_says_too_little_is_rejected(option: str) -> None:
    with pytest.raises(ConfigError, match="does not say what a system is"):
        parse_system(option)


@pytest.mark.parametrize("option", ["", "key", "=value"])
def test_a_setting_that_is_none_is_rejected(option: str) -> None:
    with pytest.raises(ConfigError, match="is not a setting"):
        find_environment(None, config=[option])


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Give a file or folder to another user, who is not root."""

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, 12345, 12345, follow_symlinks=False)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 54321)

    return give


def below(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder below that of a file."""
    (file.parent / "mine").mkdir(exist_ok=True)
    monkeypatch.chdir(file.parent / "mine")


def rejected() -> str:
    with pytest.raises(ConfigError) as caught:
        find_environment("dev", variables={"EVENTS_PASSWORD": ""})
    return str(caught.value)


def test_a_file_found_that_is_ours_is_used(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below(file, monkeypatch)
    assert find_environment("dev", variables={"EVENTS_PASSWORD": ""}).file == file


def test_rejects_a_file_found_of_another_user_unless_it_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch, foreign: Callable[[Path], None]
) -> None:
    file.write_text(TOML.replace("[env.dev]", '[env.dev]\nrunner_python = "/tmp/evil"'))
    below(file, monkeypatch)
    foreign(file)
    said = rejected()
    assert f"{file} belongs to the user" in said
    assert "could have planted it: it is not used" in said
    assert f"name it: --config-file {file}" in said
    assert find_environment("dev", file=file, variables={"EVENTS_PASSWORD": ""}).runner_python == "/tmp/evil"


@pytest.mark.parametrize(("mode", "who"), [(0o666, "everybody"), (0o646, "everybody")])
def test_rejects_a_file_found_that_others_may_write(
    file: Path, monkeypatch: pytest.MonkeyPatch, mode: int, who: str
) -> None:
    below(file, monkeypatch)
    file.chmod(mode)
    assert f"{file} may be written by {who}" in rejected()


def test_rejects_a_file_found_in_a_folder_that_others_may_write_unless_it_is_sticky(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below(file, monkeypatch)
    file.parent.chmod(0o777)
    assert f"{file} lies in {file.parent}, which may be written by everybody" in rejected()
    file.parent.chmod(0o1777)
    assert find_environment("dev", variables={"EVENTS_PASSWORD": ""}).name == "dev"


def test_rejects_a_link_found_of_another_user_and_one_to_a_file_that_others_may_write(
    file: Path, monkeypatch: pytest.MonkeyPatch, foreign: Callable[[Path], None]
) -> None:
    other = file.parent / "elsewhere"
    other.mkdir()
    file.rename(other / "real.toml")
    file.symlink_to("elsewhere/real.toml")
    below(file, monkeypatch)
    assert find_environment("dev", variables={"EVENTS_PASSWORD": ""}).file == file
    (other / "real.toml").chmod(0o666)
    assert "may be written by everybody" in rejected()
    (other / "real.toml").chmod(0o644)
    other.chmod(0o777)
    assert f"lies in {other}, which may be written by everybody" in rejected()
    other.chmod(0o755)
    foreign(file)
    assert "belongs to the user" in rejected()


def test_a_group_may_write_a_file_found_when_nobody_else_is_in_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below(file, monkeypatch)
    file.chmod(0o664)
    me = pwd.getpwuid(os.geteuid()).pw_name
    for members, fine in (([], True), ([me], True), ([me, "mallory"], False)):
        group = grp.struct_group((me, "x", os.getegid(), members))
        monkeypatch.setattr(grp, "getgrgid", lambda gid, group=group: group)
        if fine:
            assert find_environment("dev", variables={"EVENTS_PASSWORD": ""}).name == "dev"
        else:
            assert f"may be written by the group {me}" in rejected()


@pytest.mark.parametrize(
    "words", [["runs", "list"], ["gc", "--dry-run"], ["topics", "list"], ["topics", "expire", "--yes"], ["fsck"]]
)
def test_each_command_says_once_which_file_it_uses(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "samza.toml").write_text('[env.dev]\nroot = "state"\n')
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    assert found.stderr.count(f"Environment: [env.dev] of {tmp_path / 'samza.toml'}.") == 1
