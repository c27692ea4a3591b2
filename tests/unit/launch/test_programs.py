"""Programs that a process starts: what they are given, where they print, and variables that are set meanwhile."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from airflow_samza.launch.programs import start_detached, submit_options, variables_set


def test_variables_have_their_former_values_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMZA_KEPT", "before")
    monkeypatch.delenv("SAMZA_NEW", raising=False)
    with suppress(ValueError), variables_set({"SAMZA_KEPT": "now", "SAMZA_NEW": "new"}):
        assert (os.environ["SAMZA_KEPT"], os.environ["SAMZA_NEW"]) == ("now", "new")
        raise ValueError("the program fails")
    assert os.environ["SAMZA_KEPT"] == "before"
    assert "SAMZA_NEW" not in os.environ


def test_options_for_java_stand_before_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    assert submit_options("-Xa") == {"SPARK_SUBMIT_OPTS": "-Xa"}
    with variables_set(submit_options("-Xa")):
        assert submit_options("-Xb") == {"SPARK_SUBMIT_OPTS": "-Xb -Xa"}


@pytest.mark.parametrize(("given", "read"), [(None, ""), ({"key": "ä"}, '{"key": "\\u00e4"}')])
def test_a_program_reads_what_it_is_given_and_prints_into_a_file(
    tmp_path: Path, given: dict[str, object] | None, read: str
) -> None:
    program = "import os, sys; print(sys.stdin.read(), os.getsid(0) == os.getpid(), os.environ['A'], file=sys.stderr)"
    process = start_detached([sys.executable, "-c", program], str(tmp_path / "log"), {"A": "b"}, given)
    assert process.wait(60) == 0
    assert (tmp_path / "log").read_text() == f"{read} True b\n"


def test_a_program_that_dies_at_once_is_given_nothing(tmp_path: Path) -> None:
    process = start_detached(["/bin/false"], str(tmp_path / "log"), {}, {"text": "x" * 1_000_000})
    assert process.wait(60) == 1
