"""Whatever fails, and wherever the run is cut into epochs: each bad message is told once, and all others come out."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_samza import dead_letter, stream_application
from airflow_samza.testing import TestDriver
from tests.support.budgets import share

SETTINGS = settings(max_examples=share(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])

ROWS = st.lists(
    st.one_of(st.fixed_dictionaries({"k": st.integers(0, 5), "v": st.integers(-3, 6)}), st.just("unreadable")),
    max_size=40,
)
"""``n`` numbers the messages, so that each is told from the others."""

Step = tuple[str, int, str]
"""An operator, the value on which it fails, and its on_error."""

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["map", "filter", "flat_map", "where", "select", "map_batches", "partition_by"]),
        st.integers(-3, 6),
        st.sampled_from(["drop", "dead_letter"]),
    ),
    max_size=5,
)


def unless(bad: int, then: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def function(message: Any) -> Any:
        if message.v == bad:
            raise ValueError(f"{bad} is bad")
        return then(message)

    return function


def no_batch_with(bad: int) -> Callable[[Any], Any]:
    def function(batch: Any) -> Any:
        assert bad not in batch.column("v").to_pylist()
        return batch

    return function


def application(steps: list[Step], input_policy: str) -> Any:
    @stream_application("random-failures")
    def described(app: Any) -> None:
        letters = dead_letter(app.output_stream("bad"))
        policies: dict[str, Any] = {"drop": "drop", "dead_letter": letters}
        stream = app.input_stream(
            "rows", schema="n int not null, k int, v int", partitions=2, on_error=policies[input_policy]
        )
        for number, (kind, bad, on_error) in enumerate(steps):
            name, policy = f"s{number}", policies[on_error]
            if kind == "map":
                stream = stream.map(unless(bad, lambda row: row), id=name, on_error=policy)
            elif kind == "filter":
                stream = stream.filter(unless(bad, lambda row: row.k != 5), id=name, on_error=policy)
            elif kind == "flat_map":
                stream = stream.flat_map(
                    unless(bad, lambda row: [row, row] if row.k == 0 else [row]), id=name, on_error=policy
                )
            elif kind == "where":
                stream = stream.where(f"1 / (v - ({bad})) < 100", id=name, on_error=policy)
            elif kind == "select":
                stream = stream.select("n", "k", "v", f"1 div (v - ({bad})) AS w", id=name, on_error=policy).select(
                    "n", "k", "v"
                )
            elif kind == "map_batches":
                stream = stream.map_batches(no_batch_with(bad), id=name, on_error=policy)
            else:
                stream = stream.partition_by("k", id=name)
        stream.send_to(app.output_stream("out"))

    return described


def expected(rows: list[Any], steps: list[Step], input_policy: str) -> tuple[list[Any], list[Any], int]:
    """The output (n), the dead letters (operator, n), and the number of messages dropped."""
    fine, letters, dropped = [], [], 0
    for row in rows:
        if row == "unreadable":
            letters += [("rows", None)] if input_policy == "dead_letter" else []
            dropped += input_policy == "drop"
        else:
            fine.append(row)
    for number, (kind, bad, on_error) in enumerate(steps):
        if kind == "partition_by":
            continue
        failing = [row for row in fine if row["v"] == bad]
        if on_error == "drop":
            dropped += len(failing)
        else:
            letters += [(f"s{number}", row["n"]) for row in failing]
        fine = [row for row in fine if row["v"] != bad]
        if kind == "filter":
            fine = [row for row in fine if row["k"] != 5]
        elif kind == "flat_map":
            fine = [row for row in fine for _ in range(2 if row["k"] == 0 else 1)]
    return sorted(row["n"] for row in fine), sorted(letters, key=repr), dropped


@SETTINGS
@given(
    ROWS, STEPS, st.sampled_from(["drop", "dead_letter"]), st.one_of(st.none(), st.integers(1, 9)), st.integers(0, 100)
)
def test_what_fails_is_told_once_and_the_rest_comes_out(
    drawn: list[Any], steps: list[Step], input_policy: str, epoch_messages: int | None, seed: int
) -> None:
    rows = [row if isinstance(row, str) else {"n": number, **row} for number, row in enumerate(drawn)]
    driver = TestDriver(application(steps, input_policy), config={"job.intermediate.stream.partitions": "2"}).pipe(
        "rows", rows
    )
    if epoch_messages is None:
        driver.run()
    else:
        driver.run(mode="pipelined", epoch_messages=epoch_messages, shuffle=random.Random(seed))
    out, letters, dropped = expected(rows, steps, input_policy)
    assert sorted(row.n for row in driver.output("out")) == out
    found = []
    sent = input_policy == "dead_letter" or any(
        kind != "partition_by" and policy == "dead_letter" for kind, _, policy in steps
    )
    for letter in driver.output("bad") if sent else ():
        name = letter.operator.rpartition("-")[2]
        found.append((name, None if name == "rows" else json.loads(letter.message)["n"]))
    assert sorted(found, key=repr) == letters
    if epoch_messages is None:
        metrics: dict[str, float] = {}
        for report in driver.reports():
            for name, value in report.metrics.items():
                metrics[name] = metrics.get(name, 0) + value
        assert sum(value for name, value in metrics.items() if name.startswith("dropped_messages.")) == dropped
        assert sum(value for name, value in metrics.items() if name.startswith("dead_letters.")) == len(letters)
