"""All ways to run an application give the same output for the same input.

Stage after stage, all at once, continuously, run by run.
"""

from __future__ import annotations

import os
import random

import pytest
from samza_spark_apps.random_apps import plan_of

from tests.support.budgets import share
from tests.support.random_runs import driver_of, in_pieces, outputs, whole

EXAMPLES = int(os.environ.get("MODES_EXAMPLES") or share(120))
GROUPS = 10


@pytest.mark.random
@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.few(2, 5)
def test_every_mode_gives_the_same_output(group: int) -> None:
    for seed in range(group, EXAMPLES, GROUPS):
        check(seed)


def check(seed: int) -> None:
    rng = random.Random(seed)
    plan = plan_of(seed)
    reduced, most = rng.random() < 0.5, rng.choice([2, 7, 20, None])
    staged = outputs(whole(plan, driver_of(plan, bounded=True)).run())
    pipelined = whole(plan, driver_of(plan, bounded=True, reduced=reduced)).run(
        mode="pipelined", epoch_messages=most, shuffle=rng
    )
    assert outputs(pipelined) == staged, f"pipelined, seed {seed}"
    if (
        "rows" in plan.inputs
    ):  # what a table holds when it is looked up depends on the time, unless it is filled first (rule M8)
        return
    continuous = in_pieces(
        plan,
        driver_of(plan, bounded=False, reduced=reduced),
        rng,
        lambda driver: driver.step(epoch_messages=most, shuffle=rng),
    )
    assert outputs(continuous.drain(epoch_messages=most, shuffle=rng)) == staged, f"continuous, seed {seed}"
    run_by_run = in_pieces(
        plan, driver_of(plan, bounded=False, reduced=reduced), rng, lambda driver: driver.catch_up(epoch_messages=most)
    )
    assert outputs(run_by_run.drain()) == staged, f"run by run, seed {seed}"
