"""One version of Spark: sentences where two meet."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from airflow_samza.errors import RuntimeMissing
from airflow_samza.launch import spark_versions
from airflow_samza.launch.launcher import check_place
from airflow_samza.launch.masters import SubmitOptions, parse_master
from airflow_samza.launch.spark_versions import PAIRS, check_installed, check_server


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install distributions of these versions alone, as far as the check can see."""

    def install(**versions: str) -> None:
        def version(name: str) -> str:
            found = versions.get(name.replace("-", "_"))
            if found is None:
                raise PackageNotFoundError(name)
            return found

        monkeypatch.setattr(spark_versions, "version", version)

    return install


def spark_home(folder: Path, version: str) -> str:
    (folder / "jars").mkdir()
    (folder / "jars" / f"spark-core_2.13-{version}.jar").touch()
    return str(folder)


def test_this_environment_has_one_version_of_spark() -> None:
    check_installed()


@pytest.mark.parametrize(
    "versions",
    [{}, {"pyspark": "4.1.3"}, {"pyspark_client": "4.1.3"}, {"pyspark": "4.1.3", "pyspark_client": "4.1.3"}],
    ids=["none", "pyspark alone", "client alone", "both"],
)
def test_accepts_one_version(installed: Callable[..., None], versions: dict[str, str]) -> None:
    installed(**versions)
    check_installed()


@pytest.mark.parametrize("client", ["4.2.0", "4.1.2"])
def test_rejects_pyspark_beside_another_version_of_its_client(installed: Callable[..., None], client: str) -> None:
    installed(pyspark="4.1.10", pyspark_client=client)
    with pytest.raises(RuntimeMissing) as error:
        check_installed()
    assert "4.1.10" in error.value.sentence
    assert client in error.value.sentence
    assert f"pyspark=={PAIRS[4, 1]} pyspark-client=={PAIRS[4, 1]}" in error.value.hint


def test_rejects_a_spark_home_with_another_spark(tmp_path: Path, installed: Callable[..., None]) -> None:
    installed(pyspark="4.2.0")
    with pytest.raises(RuntimeMissing, match=r"has Spark 3\.5\.7, and pyspark is of version 4\.2\.0") as error:
        check_installed(spark_home(tmp_path, "3.5.7"))
    assert error.value.hint == "Unset SPARK_HOME, so that pyspark starts the Spark that it brings."


def test_accepts_a_spark_home_of_the_same_spark_or_without_one(tmp_path: Path, installed: Callable[..., None]) -> None:
    installed(pyspark="4.2.0")
    check_installed(spark_home(tmp_path, "4.2.0"))
    check_installed(str(tmp_path / "none"))


def test_whoever_submits_is_told_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", spark_home(tmp_path, "3.5.7"))
    with pytest.raises(RuntimeMissing, match=r"has Spark 3\.5\.7"):
        check_place(parse_master("local[2]"), SubmitOptions())


def test_accepts_a_connect_server_of_the_same_feature_release() -> None:
    check_server("The server", "4.1.4", "4.1.3")


def test_rejects_a_connect_server_of_another_feature_release() -> None:
    with pytest.raises(RuntimeMissing, match=r"runs Spark 4\.1\.3, and pyspark is of version 4\.2\.0") as error:
        check_server("The Spark Connect server sc://spark:15002", "4.1.3", "4.2.0")
    assert error.value.hint == (
        f"Use a server of Spark 4.2, or install its version: pip install pyspark=={PAIRS[4, 1]} "
        f"pyspark-client=={PAIRS[4, 1]}."
    )


def test_a_server_that_no_version_of_this_package_runs_with_has_one_remedy() -> None:
    with pytest.raises(RuntimeMissing) as error:
        check_server("The Spark Connect server sc://spark:15002", "3.5.7", "4.2.0")
    assert error.value.hint == "Use a server of Spark 4.2."
