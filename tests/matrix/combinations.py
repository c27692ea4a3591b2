"""The combinations of Airflow, Spark and Python that ``make nightly`` builds and tries.

All versions that the package supports occur, and the corners of Airflow × Spark; the full product would not show more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from itertools import product


@dataclass(frozen=True)
class Combination:
    """One environment: exact versions, and the day on which that Airflow was published."""

    airflow: str
    published: date
    spark: str
    python: str

    @property
    def name(self) -> str:
        """A name for folders and command lines: ``airflow-3.1.0-spark-4.0.0-python-3.10``."""
        return f"airflow-{self.airflow}-spark-{self.spark}-python-{self.python}"


OLDEST = Combination("3.1.0", date(2025, 9, 25), "4.0.0", "3.10")
NEWEST = Combination("3.3.2", date(2026, 9, 17), "4.2.0", "3.13")

COMBINATIONS = (
    OLDEST,
    Combination("3.1.8", date(2026, 3, 11), "4.2.0", "3.11"),
    Combination("3.2.2", date(2026, 5, 29), "4.1.3", "3.12"),
    Combination("3.3.2", date(2026, 9, 17), "4.0.4", "3.11"),
    NEWEST,
    Combination("3.3.2", date(2026, 9, 17), "4.3.0", "3.11"),
)


def with_releases(airflow: str = "", spark: str = "", python: str = "") -> Combination:
    """Return the newest combination with other releases; one that no combination has counts as published today.

    >>> with_releases(spark="9.0.0").name
    'airflow-3.3.2-spark-9.0.0-python-3.13'
    """
    airflow = airflow or NEWEST.airflow
    published = {one.airflow: one.published for one in COMBINATIONS}.get(airflow, date.today())
    return replace(
        NEWEST, airflow=airflow, published=published, spark=spark or NEWEST.spark, python=python or NEWEST.python
    )


def whole_product() -> list[Combination]:
    """Return the newest release of each Airflow with that of each Spark, on each Python."""
    airflows = {feature(one.airflow): (one.airflow, one.published) for one in _by_age("airflow")}
    sparks = {feature(one.spark): one.spark for one in _by_age("spark")}
    pythons = dict.fromkeys(one.python for one in _by_age("python"))
    return [
        Combination(airflow, published, spark, python)
        for (airflow, published), spark, python in product(airflows.values(), sparks.values(), pythons)
    ]


def feature(version: str) -> str:
    """Return the feature release of a version.

    >>> feature("3.1.8")
    '3.1'
    """
    return ".".join(version.split(".")[:2])


def _by_age(part: str) -> list[Combination]:
    return sorted(COMBINATIONS, key=lambda one: [int(number) for number in getattr(one, part).split(".")])


FOLDER = "{folder}"
"""An argument that stands for the folder of the environment, in which a suite leaves its files."""


@dataclass(frozen=True)
class Suite:
    """A part of what is run in each environment: arguments of Python, and of the tests left out the reason."""

    name: str
    arguments: tuple[str, ...]
    deselected: tuple[tuple[str, str, str], ...] = ()
    """Tests that are left out: the version of Airflow (or its beginning), the test, the reason."""

    def command(self, combination: Combination) -> list[str]:
        """Return the arguments for one combination."""
        left_out = [test for airflow, test, _ in self.deselected if combination.airflow.startswith(airflow)]
        return [*self.arguments, *(part for test in left_out for part in ("--deselect", test))]


# Libraries of these older pins warn of what newer ones have taken away: here, warnings are no errors. The plugin of
# anyio, which Airflow brings, does not load beside pytest 9 where its pin is older.
_PYTEST = ("-m", "pytest", "-q", "-p", "no:anyio", "-p", "no:cacheprovider", "-o", "filterwarnings=default")

SUITES = (
    Suite(
        "unit",
        (
            *_PYTEST,
            "-m",
            "not nightly",
            "tests/unit/provider",
            "tests/unit/launch",
            "tests/unit/spark",
            "tests/unit/test_planning_is_light.py",
        ),
        (
            (
                "3.1.0",
                "tests/unit/provider/connections/test_spark.py::test_a_spark_connection_that_is_not_defined_is_named",
                "Airflow 3.1.0 itself cannot look for a connection outside a task",
            ),
        ),
    ),
    Suite("parse cost", ("-m", "benchmarks.parse_cost")),
    Suite("sessions", (*_PYTEST, "-k", "(local or connect) and not s3", "tests/spark/test_contract_of_sessions.py")),
    Suite("demo", ("-m", "demo", "--home", FOLDER)),
    Suite("stages", (*_PYTEST, "-m", "not nightly", "tests/spark/test_stages.py", "tests/spark/test_datasource.py")),
    Suite("expressions", (*_PYTEST, "-m", "not nightly", "tests/property/test_expressions_against_spark.py")),
    Suite("page", (*_PYTEST, "-m", "not nightly and not browser", "tests/page")),
    Suite(
        "airflow",
        (*_PYTEST, "-m", "not nightly and not browser", "tests/airflow"),
        (
            (
                "3.1",
                "tests/airflow/test_flights.py::test_the_page_of_connections_has_the_samza_form",
                "the form of a connection in Airflow 3.1 shows no fields of a provider",
            ),
            *(
                (
                    "3.1.0",
                    f"tests/airflow/test_interference.py::{test}",
                    "Airflow 3.1.0 retries no task that was killed",
                )
                for test in (
                    "test_a_killed_task_re_attaches_and_doubles_nothing",
                    "test_killed_tasks_of_a_pipelined_run_re_attach_and_double_nothing",
                )
            ),
        ),
    ),
)
