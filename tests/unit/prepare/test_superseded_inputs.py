"""A state never goes on from what its writer has replaced.

Plan names the run that read it, and nothing is counted twice. No Spark.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.errors import StateError, TopicError
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_upkeep import reset
from airflow_samza.systems.log.maintenance import expire, mark_expired, sweep
from tests.support.runs_here import Here

APPS = "tests.support.carrying_apps"
FEEDING, READING = f"{APPS}:counting", f"{APPS}:recounting"
SCHEMA = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def feed(here: Here, run: int, count: int = 12) -> RunPlan:
    rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(run * count, (run + 1) * count)]
    here.log.append("clicks", pa.Table.from_pylist(rows, SCHEMA), key=["member"], partitions=2)
    return here.whole(FEEDING, f"feed-{run}")


def both(here: Here, runs: int) -> list[RunPlan]:
    """So many runs of the feeder, each followed by one of its consumer."""
    fed = []
    for run in range(runs):
        fed.append(feed(here, run))
        here.whole(READING, f"read-{run}")
    return fed


def recounted(here: Here) -> list[tuple[str, int]]:
    return sorted((row["page"], row["number"]) for row in here.rows("recounted"))


def exact(count: int) -> list[tuple[str, int]]:
    return sorted((f"p{n}", n // 3 + 1) for n in range(count))


def clear(here: Here, plan: RunPlan, generation: int = 2) -> None:
    here.stages(plan, generation=generation)


@pytest.mark.extended
def test_a_consumer_rejects_what_was_written_anew_and_names_the_run_to_clear(here: Here) -> None:
    fed = both(here, 6)
    assert recounted(here) == exact(72)
    clear(here, fed[3])
    said = r"The run 'feed-3' of 'counting' has rewritten its part of the input 'numbered' \(generation 1\.2\)"
    with pytest.raises(StateError, match=said) as caught:
        here.plan(READING, "read-6")
    assert "'read-3', and those after it" in caught.value.hint
    assert "airflow-samza state reset recounting --to 3" in caught.value.hint
    assert len(here.rows("recounted")) == 72


def test_the_way_out_gives_each_message_once(here: Here) -> None:
    fed = both(here, 6)
    clear(here, fed[3])
    reset(here.log.filesystem, StateHistory("recounting"), 3)
    for run in (3, 4, 5):
        here.whole(READING, f"read-{run}", generation=2)
    here.whole(READING, "read-6")
    assert sorted(page for page, _ in recounted(here)) == sorted(f"p{n}" for n in range(72))
    assert sorted(number for _, number in recounted(here)) == sorted(n // 3 + 1 for n in range(72))


@pytest.mark.extended
def test_the_last_run_alone_is_cleared_where_it_alone_has_read_it(here: Here) -> None:
    fed = both(here, 3)
    clear(here, fed[2])
    with pytest.raises(StateError) as caught:
        here.plan(READING, "read-3")
    assert caught.value.hint == "Clear the run that read it, 'read-2', from its plan on; then it reads the newer one."
    here.whole(READING, "read-2", generation=2)
    here.whole(READING, "read-3")
    assert recounted(here) == exact(36)


def test_what_was_written_anew_before_anybody_read_it_is_read_once(here: Here) -> None:
    both(here, 1)
    plan = feed(here, 1)
    clear(here, plan)
    here.whole(READING, "read-1")
    assert recounted(here) == exact(24)
    here.whole(READING, "read-2")
    assert recounted(here) == exact(24)


def test_what_is_written_anew_while_the_consumer_runs_is_seen_by_the_run_after_it(here: Here) -> None:
    fed = both(here, 2)
    feed(here, 2)
    plan = here.plan(READING, "read-2")
    clear(here, fed[1])
    here.stages(plan)
    here.runtime.close(plan)
    assert recounted(here) == exact(36)
    with pytest.raises(StateError, match=r"The run 'feed-1' .* has rewritten"):
        here.plan(READING, "read-3")


@pytest.mark.extended
def test_a_run_too_long_ago_to_be_cleared_is_answered_by_forgetting_the_state(here: Here) -> None:
    fed = both(here, 8)  # five versions are kept
    clear(here, fed[0])
    with pytest.raises(StateError) as caught:
        here.plan(READING, "read-8")
    assert caught.value.hint.endswith("reads anew all that is there: airflow-samza state reset recounting")
    assert "remove what earlier runs wrote" in caught.value.hint


def test_what_was_read_is_known_also_when_it_is_expired(here: Here) -> None:
    fed = both(here, 2)
    expire(here.log.topic("numbered"), time.time_ns() // 1_000_000 + 1_000)
    clear(here, fed[0])
    with pytest.raises(StateError, match=r"The run 'feed-0' .* has rewritten"):
        here.plan(READING, "read-2")


def test_what_was_never_read_may_be_written_anew(here: Here) -> None:
    plan = feed(here, 0)
    here.whole(READING, "read-0", config={"streams.numbered.samza.offset.default": "upcoming"})
    clear(here, plan)
    here.whole(READING, "read-1")
    assert sorted(page for page, _ in recounted(here)) == sorted(f"p{n}" for n in range(12))


def test_a_shared_section_that_was_written_anew_is_rejected_whoever_plans_next(here: Here) -> None:
    producing, following = f"{APPS}:producing", f"{APPS}:following"
    plans = []
    for run in range(2):
        rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(run * 6, run * 6 + 6)]
        here.log.append("clicks", pa.Table.from_pylist(rows, SCHEMA), key=["member"], partitions=2)
        plans.append(here.whole(producing, f"shared-{run}"))
        here.whole(following, f"follow-{run}")
    here.stages(plans[0], "by-member", generation=2)
    said = "'shared-0' of 'producing' has rewritten its section of the shared stream 'shared-clicks'"
    with pytest.raises(StateError, match=said) as caught:
        here.plan(following, "follow-2")
    assert caught.value.hint.startswith("First undo the run that read it, 'follow-0', and those after it")


def test_a_continuous_reader_stops_when_what_it_has_read_is_written_anew(here: Here) -> None:
    fed = both(here, 2)
    plan = here.plan(READING, "goes-on", mode="continuous")
    raised: list[BaseException] = []

    def run() -> None:
        try:
            here.stages(plan)
        except StateError as error:
            raised.append(error)

    runner = threading.Thread(target=run, daemon=True)
    runner.start()
    fed.append(feed(here, 2))
    deadline = time.monotonic() + 60
    while len(here.rows("recounted")) < 36 and time.monotonic() < deadline:
        time.sleep(0.02)
    clear(here, fed[2])
    runner.join(300)
    assert not runner.is_alive()
    assert "'feed-2' of 'counting' has rewritten its part of the input 'numbered'" in str(raised[0])
    assert recounted(here) == exact(36)


def test_a_topic_that_was_made_anew_is_rejected_though_it_reaches_as_far(here: Here) -> None:
    both(here, 1)
    mark_expired(here.log.topic("numbered"), 0)
    assert sweep(here.log.filesystem, "log").topics == ["numbered"]
    feed(here, 1)
    feed(here, 2)
    with pytest.raises(
        TopicError, match="The input 'numbered' is another topic than the one that was read by the run before"
    ):
        here.plan(READING, "read-1")
