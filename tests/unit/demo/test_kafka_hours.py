"""The demonstration on Kafka tells an hour that is right from one that is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.airflow_api import AirflowProblem
from demo.kafka_hours import DAY, HOURS, compare

NOON = int(DAY.timestamp() * 1000) + 12 * 3_600_000


def flight(carrier: str, delay: int | None, minutes: int = 0) -> dict[str, Any]:
    return {"carrier": carrier, "dep_delay": delay, "at": NOON + minutes * 60_000}


# Of the last two one did not leave, and one is of the hour before noon.
SENT = [flight("AA", 5), flight("AA", -2, 59), flight("DL", 0, 1), flight("UA", None), flight("UA", 1, -1)]
EARLIER = [{"carrier": "UA", "flights": 1, "delay": 1.0}]
RIGHT = [{"carrier": "AA", "flights": 2, "delay": 1.5}, {"carrier": "DL", "flights": 1, "delay": 0.0}]


def written(folder: Path, noon: Sequence[dict[str, Any]]) -> Path:
    for hour, rows in ((HOURS[11], EARLIER), (HOURS[12], noon)):
        for number, row in enumerate(rows):
            file = folder / f"{hour:%Y-%m-%dT%H}" / f"{number}.parquet"
            file.parent.mkdir(exist_ok=True)
            pq.write_table(pa.Table.from_pylist([row]), file)
    return folder


def test_a_day_whose_hours_are_the_models_is_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(written(tmp_path, RIGHT), SENT)
    assert "Equal: 4 flights of 2013-12-30, 24 hours." in capsys.readouterr().out


@pytest.mark.parametrize(
    "noon",
    [RIGHT[:1], [RIGHT[0], {**RIGHT[1], "flights": 2}], [*RIGHT, *EARLIER], []],
    ids=["a carrier less", "a flight twice", "a carrier of another hour", "nothing"],
)
def test_a_day_with_an_hour_that_differs_is_not(
    tmp_path: Path, noon: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert not compare(written(tmp_path, noon), SENT)
    assert "DIFFERENT" in capsys.readouterr().out


def test_a_carrier_that_comes_twice_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(AirflowProblem, match="more than once"):
        compare(written(tmp_path, [*RIGHT, RIGHT[0]]), SENT)
