"""Any text people or foreign topics write.

It is understood, or one sentence says what is wrong, in time that grows with its length.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_samza.application.times import duration_ms
from airflow_samza.cli.environment import read_environment
from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage, decode, encode
from airflow_samza.errors import SamzaError
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.schema import Schema
from tests.support.carrying_apps import joining
from tests.support.damage import SECONDS, damaged

DDL = [
    *"<>(),:`'\" \n\\",
    "id",
    "bigint",
    "array",
    "map",
    "struct",
    "decimal",
    "not null",
    "comment",
    "38",
    "9" * 30,
    "é",
    "\x00",
    "varchar",
]
TOML = [
    *"[]{}='\"#.,\n",
    "env",
    "dev",
    "root",
    "systems",
    "kind",
    "logs",
    "3",
    "true",
    "1979-05-27",
    "1e400",
    "\x00",
    "é",
    '"""',
    "nan",
]
LENGTHS = ["5", "minutes", " ", "-", "1" * 5000, "ms", "é", "week", "\x00", "1.5", "_"]
WIRE = [
    encode(EndOfStreamMessage("task-1", 2, stream_id="views")),
    encode(WatermarkMessage("task-1", 2, timestamp=5)),
    encode(b"user"),
]


def words(rng: random.Random, known: list[str]) -> str:
    return rng.choice(["", " "]).join(rng.choices(known, k=rng.randrange(1, 40)))


def ddl(rng: random.Random, folder: Path) -> object:
    return Schema.of(words(rng, DDL))


def environment(rng: random.Random, folder: Path) -> object:
    file = folder / "samza.toml"
    file.write_text(
        rng.choice(["", "[env.dev]\nroot = 'x'\n", "[env.dev.systems.logs]\nkind = 'log'\n"]) + words(rng, TOML)
    )
    return read_environment(file, "dev", {})


def length(rng: random.Random, folder: Path) -> object:
    return duration_ms(words(rng, LENGTHS))


def message(rng: random.Random, folder: Path) -> object:
    data = rng.choice(WIRE)
    body = damaged(data[1:], rng)
    return decode(
        rng.choice([data[:1], bytes([rng.randrange(256)]), b""]) + body, stream="views", partition=0, offset=7
    )


def plan(rng: random.Random, folder: Path) -> object:
    from airflow_samza.planner.planner import plan_shape

    text = plan_shape(joining.spec()).to_json().encode()
    return ExecutionPlan.from_json(damaged(text, rng).decode("utf-8", "replace"))


READERS = [ddl, environment, length, message, plan]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@pytest.mark.few(1)
def test_any_text_is_understood_or_answered_with_a_sentence(
    reader: Callable[[random.Random, Path], object], tmp_path: Path
) -> None:
    end = time.monotonic() + SECONDS / len(READERS)
    seed = 0
    while time.monotonic() < end:
        seed += 1
        try:
            with contextlib.suppress(SamzaError):
                reader(random.Random(seed), tmp_path)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error


HOSTILE = {
    "quotes": "a " + "'" * 200_000,
    "backquotes": "`" * 200_001,
    "a quotation without an end": "a '" + "x" * 200_000,
    "types within types": "a " + "array<" * 20_000,
    "a wide struct": "a struct<" + ",".join(f"f{n}:int" for n in range(50_000)) + ">",
    "a long number": f"a decimal({'9' * 100_000})",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.timeout(20)  # what grows with the square takes minutes
def test_a_long_schema_is_read_once(name: str) -> None:
    with contextlib.suppress(SamzaError):
        Schema.of(HOSTILE[name])


def test_a_long_schema_is_shown_in_part() -> None:
    with pytest.raises(SamzaError) as caught:
        Schema.of(HOSTILE["a long number"])
    assert len(caught.value.sentence) < 1000


def test_deeply_nested_json_is_no_control_message() -> None:
    with pytest.raises(SamzaError):
        decode(bytes([1]) + b"[" * 100_000, stream="views", partition=0, offset=0)
    with pytest.raises(SamzaError):
        ExecutionPlan.from_json("[" * 100_000)
    assert json.loads(encode(EndOfStreamMessage(None, 1, stream_id="s"))[1:])["taskCount"] == 1
