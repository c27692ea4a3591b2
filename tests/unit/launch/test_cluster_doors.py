"""The check of a connection and the runner's log name what a cluster's settings leave open."""

from __future__ import annotations

import pytest

from airflow_samza.launch.cluster_doors import open_doors
from airflow_samza.launch.masters import parse_master

SECRET, CLEAR = {"spark.authenticate": "true"}, {"spark.authenticate": "false", "spark.network.crypto.enabled": "true"}


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443"])
@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({}, "spark.authenticate is off"),
        (CLEAR, "spark.authenticate is off"),
        (SECRET, "spark.network.crypto.enabled is off"),
        ({**SECRET, "spark.network.crypto.enabled": "True"}, None),
        ({**SECRET, "spark.ssl.rpc.enabled": "true"}, None),
    ],
)
def test_a_cluster_without_a_secret_or_in_clear_is_warned_of(
    master: str, conf: dict[str, str], words: str | None
) -> None:
    warning = open_doors(parse_master(master), conf)
    assert (warning is None) == (words is None)
    assert words is None or words in str(warning)


@pytest.mark.parametrize("master", ["local[*]", "sc://host:15002"])
def test_others_are_not(master: str) -> None:
    assert open_doors(parse_master(master), {}) is None
