from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.provider.run_identity import bundle_of, generation_of, interval_of, partition_key_of, run_id_of
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.run_plan import other_code


def context(*, retries: int = 2, max_tries: int = 2, try_number: int = 1, **given: Any) -> dict[str, Any]:
    task = SimpleNamespace(retries=retries)
    ti = SimpleNamespace(
        task=task, dag_id="flights", run_id="manual__1", map_index=-1, max_tries=max_tries, try_number=try_number
    )
    return {"ti": ti, "run_id": "manual__1", **given}


def test_first_try_is_generation_one() -> None:
    assert generation_of(context()) == 1


def test_a_retry_keeps_the_generation() -> None:
    assert generation_of(context(try_number=3)) == 1


def test_a_clear_is_a_new_generation_and_its_retries_keep_it() -> None:
    # Airflow: a clear after try n sets max_tries to n + retries.
    assert generation_of(context(try_number=2, max_tries=1 + 2)) == 2
    assert generation_of(context(try_number=4, max_tries=1 + 2)) == 2
    assert generation_of(context(try_number=5, max_tries=4 + 2)) == 5


def test_a_task_without_retries_counts_its_clears() -> None:
    assert [generation_of(context(retries=0, max_tries=n, try_number=n + 1)) for n in range(3)] == [1, 2, 3]


def test_retries_raised_after_the_run_was_made_never_give_a_generation_below_one() -> None:
    assert generation_of(context(retries=5, max_tries=2)) == 1


def test_run_ids_differ_by_dag_scope_run_and_map_index_and_fit_into_paths() -> None:
    ids = set()
    for dag_id, scope, run_id, index in [
        ("flights", "a", "r", -1),
        ("flights", "b", "r", -1),
        ("flights.a", "", "r", -1),
        ("flights", "a", "s", -1),
        ("flights", "a", "r", 0),
        ("flights", "a", "r", 1),
        ("flights", "a.b", "r", -1),
        ("flights.a", "b", "r", -1),
        ("flights", "a", "scheduled__2013-01-01T00:00:00+00:00", -1),
        ("flights", "a", "scheduled__2013-01-02T00:00:00+00:00", -1),
    ]:
        given = context()
        given["ti"].dag_id, given["ti"].map_index, given["run_id"] = dag_id, index, run_id
        ids.add(run_id_of(given, scope))
    assert len(ids) == 10
    assert not any(character in run for run in ids for character in "/:+ ~")


def test_an_interval_that_is_absent_from_the_context_is_none() -> None:
    assert interval_of(context()) is None
    assert interval_of(context(dag_run=SimpleNamespace(data_interval_start=None, data_interval_end=None))) is None


def test_the_data_interval_is_taken_from_the_context() -> None:
    start, end = datetime(2013, 1, 1, tzinfo=timezone.utc), datetime(2013, 1, 2, tzinfo=timezone.utc)
    found = interval_of(context(data_interval_start=start, data_interval_end=end))
    assert found is not None
    assert (found.start, found.end) == (start, end)


@pytest.mark.parametrize(
    "given",
    [("2013-01-01", "2013-01-02"), ["2013-01-01", "2013-01-02"], "2013-01-01/2013-01-02", "2013-01-01 / 2013-01-02"],
)
def test_a_given_interval_wins(given: Any) -> None:
    found = interval_of(
        context(data_interval_start=datetime.now(timezone.utc), data_interval_end=datetime.now(timezone.utc)), given
    )
    assert found is not None
    assert found.iso() == ("2013-01-01T00:00:00+00:00", "2013-01-02T00:00:00+00:00")


@pytest.mark.parametrize("given", ["2013-01-01", ("a", "b"), "2013-01-02/2013-01-01", ("2013-01-01",), 5])
def test_rejects_an_interval_that_is_none(given: Any) -> None:
    with pytest.raises(ConfigError):
        interval_of(context(), given)


def test_the_partition_key_is_that_of_the_dag_run() -> None:
    assert partition_key_of(context()) is None
    assert partition_key_of(context(dag_run=SimpleNamespace())) is None  # as in Airflow 3.1
    assert partition_key_of(context(partition_key="nl")) == "nl"
    assert partition_key_of(context(partition_key=None, dag_run=SimpleNamespace(partition_key="be"))) == "be"


def test_pendulums_moments_count_as_the_same_microseconds() -> None:
    # Airflow's contexts hold pendulum's; on this day the clocks in New York went forward.
    start = pendulum.datetime(2013, 3, 10, 1, 30, tz="America/New_York")
    found = interval_of(context(data_interval_start=start, data_interval_end=start.add(hours=1)))
    assert found is not None
    assert found.micros() == (1_362_897_000_000_000, 1_362_900_600_000_000)


TWICE = pendulum.datetime(2026, 10, 25, 2, 30, tz="Europe/Amsterdam", fold=0)
AGAIN = pendulum.datetime(2026, 10, 25, 2, 30, tz="Europe/Amsterdam", fold=1)


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (None, {"data_interval_start": TWICE, "data_interval_end": AGAIN}),
        (None, {"dag_run": SimpleNamespace(data_interval_start=TWICE, data_interval_end=AGAIN)}),
        ((TWICE, AGAIN), {}),
        ((TWICE.isoformat(), AGAIN.isoformat()), {}),
        (f"{TWICE.isoformat()}/{AGAIN.isoformat()}", {}),
        (DataInterval(TWICE, AGAIN), {}),
    ],
)
def test_the_hour_that_comes_twice_is_an_hour_however_it_is_given(given: Any, known: dict[str, Any]) -> None:
    found = interval_of(context(**known), given)
    assert found is not None
    assert found.iso() == ("2026-10-25T00:30:00+00:00", "2026-10-25T01:30:00+00:00")
    with pytest.raises(ConfigError, match="before it starts"):
        interval_of(context(data_interval_start=AGAIN, data_interval_end=TWICE.add(minutes=15)))


def test_the_version_of_a_bundle_is_known_where_it_has_one() -> None:
    assert bundle_of(context()) == {}
    for version, found in ((None, {}), ("", {}), ("abc", {"name": "dags", "version": "abc"})):
        here = context()
        here["ti"].bundle_instance = SimpleNamespace(name="dags", version=version)
        assert bundle_of(here) == found


def test_the_sentence_of_other_code_names_both_versions() -> None:
    assert other_code({"name": "dags", "version": "def"}, {"version": "abc"}) == (
        "The code is another than that by which the run was planned: version def of the Dag bundle 'dags', and then it "
        "was abc."
    )
    for now, then in (({}, {"version": "a"}), ({"version": "a"}, {}), ({"version": "a"}, {"version": "a"})):
        assert other_code(now, then) == ""
