"""``airflow-samza compare``, as a user types it between two edits of an application's file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from airflow_samza.cli.compare_command import parse_keys
from airflow_samza.errors import ConfigError
from tests.support.typed_commands import Typed

APPLICATION = """
from airflow_samza import stream_application, sum_, unique

@stream_application("shop", config={"job.intermediate.stream.partitions": "2"})
def shop(app):
    sales = app.input_stream(
        "sales", system="data", path="sales/{ds}.csv", format="csv", schema="id bigint, country string, cents bigint"
    )
    sales.send_to(app.output_stream("sold", system="data", path="sold", format="json", expect=[unique("id")]))
    totals = sales.partition_by("country", id="by-country").aggregate("country", id="totals", cents=sum_("cents"))
    totals.send_to(app.output_stream("totals", system="log", partitions=1))
"""


class Shop(Typed):
    """An application that writes the sales of a day, and their sums by country."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "shop_app", APPLICATION)
        (folder / "sales").mkdir()
        rows = [f"{i},{['ch', 'de', 'fr'][i % 3]},{i}" for i in range(12)]
        (folder / "sales" / "2026-01-01.csv").write_text("\n".join(["id,country,cents", *rows, ""]))

    def run(self, run_id: str) -> None:
        found = self.say("run", "shop_app:shop", "--run-id", run_id, "--interval", "2026-01-01/P1D", self.data)
        assert found.returncode == 0, found.stderr

    def compare(self, *more: str) -> subprocess.CompletedProcess[str]:
        return self.say("compare", "shop_app:shop", self.data, *more)

    def sold(self) -> list[int]:
        lines = [line for file in (self.folder / "sold").glob("*.json") for line in file.read_text().splitlines()]
        return sorted(json.loads(line)["id"] for line in lines)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.extended
def test_an_edit_is_compared_and_published_as_a_user_does_it(shop: Shop) -> None:
    shop.run("monday")
    same = shop.compare()
    assert same.returncode == 0, same.stderr
    assert "sold: 12 equal, 0 added, 0 gone, 0 different by id" in same.stdout

    shop.edit("sales.send_to(", 'sales.where("cents < 10").send_to(')
    edited = shop.compare("--as-of", "monday", "--run-id", "edited", "--key", "totals=country")
    assert edited.returncode == 1, edited.stderr
    assert "Run edited of shop compared with the run monday: different" in edited.stdout
    assert "sold: 10 equal, 0 added, 2 gone, 0 different by id" in edited.stdout
    assert "gone, for example: id=***; id=***" in edited.stdout
    assert "totals: 3 equal, 0 added, 0 gone, 0 different by country" in edited.stdout
    assert shop.sold() == list(range(12)), "readers see none of it"

    again = shop.compare("--as-of", "monday", "--run-id", "edited", "--json", "--show-keys")
    assert again.returncode == 1
    report = json.loads(again.stdout)
    assert report["equal"] is False
    (sold,) = (output for output in report["outputs"] if output["stream_id"] == "sold")
    assert sold["samples"] == {"gone": [{"id": "10"}, {"id": "11"}]}

    assert "waits for approval" in shop.say("status", "shop", "edited").stdout
    listed = shop.say("runs", "list", "shop").stdout
    assert "compared with monday" in listed
    assert shop.say("fsck", shop.data).returncode == 0
    assert shop.say("gc", "--dry-run", shop.data).returncode == 0
    published = shop.say("publish", "shop", "edited", shop.data)
    assert published.returncode == 0, published.stderr
    assert shop.sold() == list(range(10))
    assert shop.say("fsck", shop.data).returncode == 0


def test_an_error_ends_with_2_and_says_how_to_go_on(shop: Shop) -> None:
    nothing = shop.compare()
    assert nothing.returncode == 2
    assert "No run of 'shop' under" in nothing.stderr
    shop.run("monday")
    shop.edit("sales.send_to(", "sales.map(lambda sale: 1 / 0).send_to(")
    failed = shop.compare("--run-id", "edited")
    assert failed.returncode == 2
    assert "To resume it: airflow-samza compare shop_app:shop --run-id edited" in failed.stderr
    assert shop.sold() == list(range(12))


def test_rejects_a_key_that_names_no_columns() -> None:
    assert parse_keys(["a=b, c", "d=e"]) == {"a": ("b", "c"), "d": ("e",)}
    for wrong in ("a", "a=", "=b", "a=b,"):
        with pytest.raises(ConfigError, match="does not say which columns are the key of which output"):
            parse_keys([wrong])
