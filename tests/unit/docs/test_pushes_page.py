"""The sentences of docs/how-to/pushes.md and docs/how-to/model-refresh.md are true: parameters, Dags, the model."""

from __future__ import annotations

import inspect
import re
from datetime import date, datetime, timezone
from pathlib import Path

import pytest

from tests.support.documentation_pages import DOCS, text_of


def test_every_parameter_that_the_page_names_is_one() -> None:
    from airflow_samza.application.declarations.streams import PushedTableOptions
    from airflow_samza.provider.operators.table_push import SamzaTablePushOperator
    from airflow_samza.runs.tables.push_request import PushRequest

    of_the_operator = inspect.signature(SamzaTablePushOperator).parameters
    of_the_table = PushedTableOptions.__annotations__
    of_runs = {
        "as_of",
        "wait",
        "valid_from",
        "spark_conf",
        "systems",
        "table_versions",
        "input_versions",
        "least",
        "on_error",
        "broadcast",
    }
    known = {*PushRequest.__dataclass_fields__, *of_the_operator, *of_the_table, *of_runs}
    assert set(re.findall(r"`(\w+)=", text_of("how-to/pushes.md"))) <= known


def test_the_dags_of_the_model_are_those_that_the_page_names() -> None:
    written = (DOCS.parent / "dags" / "delay_model.py").read_text(encoding="utf-8")
    assert re.findall(r'^with DAG\(\s*"(\w+)"', written, flags=re.MULTILINE) == re.findall(
        r"^\| `(\w+)` \|", text_of("how-to/model-refresh.md"), flags=re.MULTILINE
    )


@pytest.mark.extended
def test_a_model_scores_flights_by_carrier_and_hour(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from airflow_samza import TestDriver
    from dags.pipelines.delay_model import Flight, Weights, scores, train

    (tmp_path / "flights").mkdir()
    hours = list(range(5, 21)) * 20
    flights = {
        "carrier": ["UA", "B6"] * (len(hours) // 2),
        "hour": hours,
        "dep_delay": [40 if hour > 14 else 0 for hour in hours],
    }
    pq.write_table(pa.table(flights), tmp_path / "flights" / "2013-03-04.parquet")
    weights = [Weights(**row) for row in train(tmp_path, date(2013, 3, 4))]
    at = pytest.importorskip("pendulum").datetime(2013, 3, 5, 12, tz="UTC")
    asked = [Flight("UA", 1, "EWR", 6, at), Flight("UA", 2, "EWR", 20, at), Flight("XX", 3, "EWR", 6, at)]
    run = TestDriver(scores).pipe("planned-flights", asked).table("delay-model", weights).run()
    early, late, unknown = sorted(run.output("scores"), key=lambda score: score.flight)
    assert early.late < 0.1 < 0.9 < late.late
    assert (late.trained_to, unknown.late) == ("2013-03-04", None)


def test_a_month_is_scored_as_thirty_days_are() -> None:
    from airflow_samza import TestDriver
    from dags.pipelines.delay_model import PARTITIONS, Flight, Weights, scores_of_a_day, scores_of_a_month

    def at(day: int, hour: int = 0) -> datetime:
        return datetime(2013, 3, day, hour, tzinfo=timezone.utc)

    models = {
        day: [
            Weights(carrier, 0.1 * day, 0.01, str(at(day - 1).date())) for carrier in ("UA", "B6", "AA")[: 1 + day % 3]
        ]
        for day in range(2, 12)
    }
    flights = [
        Flight(carrier, 100 * day + hour, "EWR", hour, at(day, hour))
        for day in range(1, 13)
        for carrier, hour in (("UA", 0), ("B6", 12), ("AA", 23))
    ]
    whole = TestDriver(scores_of_a_month, partitions=PARTITIONS).pipe("flights", flights)
    for day, weights in models.items():
        whole.table("delay-model", weights, valid_from=at(day))
    found = sorted(whole.run().output("scores"), key=lambda one: (one.time_hour, one.carrier))
    expected = []
    for day in range(1, 13):
        today = [flight for flight in flights if flight.time_hour.day == day]
        daily = TestDriver(scores_of_a_day).pipe("flights", today)
        newest = max((one for one in models if one <= day), default=None)
        expected += daily.table("delay-model", models[newest] if newest is not None else []).run().output("scores")
    assert found == sorted(expected, key=lambda one: (one.time_hour, one.carrier))
    assert {one.trained_to for one in found if one.carrier == "UA"} == {
        None,
        *(str(at(day - 1).date()) for day in models),
    }
