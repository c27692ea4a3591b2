"""All ways to run an application give the same output for the same input: stage after stage, all at once, continuously, run by run."""

from __future__ import annotations

import os
import random

import pytest

from tests.property.random_runs import Plan, in_pieces, outputs, whole

EXAMPLES = int(os.environ.get("MODES_EXAMPLES", "500"))
GROUPS = 10


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_mode_gives_the_same_output(group: int) -> None:
    for seed in range(group, EXAMPLES, GROUPS):
        check(seed)


def check(seed: int) -> None:
    rng = random.Random(seed)
    plan = Plan(seed, with_table=rng.random() < 0.3)
    reduced, most = rng.random() < 0.5, rng.choice([1, 3, 10, None])
    staged = outputs(whole(plan, plan.driver(bounded=True)).run())
    pipelined = whole(plan, plan.driver(bounded=True, reduced=reduced)).run(mode="pipelined", epoch_messages=most, shuffle=rng)
    assert outputs(pipelined) == staged, f"pipelined, seed {seed}"
    if "rows" in plan.inputs:  # what a table holds when it is looked up depends on the time, unless it is filled first (M8)
        return
    continuous = in_pieces(
        plan, plan.driver(bounded=False, reduced=reduced), rng, lambda driver: driver.step(epoch_messages=most, shuffle=rng)
    )
    assert outputs(continuous.drain(epoch_messages=most, shuffle=rng)) == staged, f"continuous, seed {seed}"
    run_by_run = in_pieces(plan, plan.driver(bounded=False, reduced=reduced), rng, lambda driver: driver.catch_up(epoch_messages=most))
    assert outputs(run_by_run.drain()) == staged, f"run by run, seed {seed}"
