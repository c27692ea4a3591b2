"""The last lines of a runner's log: few, short, without secrets, and without thirty frames of Spark's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.runs.stages.runner_log import FRAMES, LINES, LONGEST_LINE, last_lines
from airflow_samza.systems.filesystems.local import LocalFilesystem


@pytest.fixture
def files(tmp_path: Path) -> LocalFilesystem:
    return LocalFilesystem(tmp_path)


def test_they_are_the_last_ones(files: LocalFilesystem) -> None:
    files.put("runner.log", "\n".join(f"line {number}" for number in range(100)).encode())
    assert last_lines(files, "runner.log") == [f"line {number}" for number in range(100 - LINES, 100)]


def test_a_log_that_is_not_there_or_empty_has_none(files: LocalFilesystem) -> None:
    files.put("empty.log", b"")
    assert last_lines(files, "nothing.log") == last_lines(files, "empty.log") == []


def test_a_long_log_is_read_at_its_end_only(files: LocalFilesystem) -> None:
    files.put("runner.log", b"x" * (3 << 20) + b"\nthe end\n")
    assert last_lines(files, "runner.log") == ["the end"]


def test_a_long_line_is_cut(files: LocalFilesystem) -> None:
    files.put("runner.log", b"y" * 5000)
    (line,) = last_lines(files, "runner.log")
    assert len(line) == LONGEST_LINE


def test_neither_secrets_nor_passwords_can_be_read(files: LocalFilesystem) -> None:
    files.put("runner.log", b"token tops3cret\njdbc:postgresql://me:hush@host/db\n\x1b[31mred")
    assert last_lines(files, "runner.log", ["tops3cret"]) == [
        "token ***",
        "jdbc:postgresql://me:***@host/db",
        "\\x1b[31mred",
    ]


def test_of_a_stack_of_java_the_first_frames_stay(files: LocalFilesystem) -> None:
    frames = [f"\tat org.apache.spark.Executor$Runner.run{number}(Executor.scala:{number})" for number in range(30)]
    files.put("runner.log", "\n".join(["the cause", *frames, "what followed", *frames]).encode())
    more = f"\t… {30 - FRAMES} more"
    assert last_lines(files, "runner.log") == [
        "the cause",
        *frames[:FRAMES],
        more,
        "what followed",
        *frames[:FRAMES],
        more,
    ]


def test_a_line_that_is_too_long_is_cut_and_one_that_just_fits_is_not(tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path)
    files.put("a.log", f"{'x' * LONGEST_LINE}\n{'y' * (LONGEST_LINE + 1)}\n".encode())
    assert last_lines(files, "a.log") == ["x" * LONGEST_LINE, f"{'y' * (LONGEST_LINE - 1)}…"]
