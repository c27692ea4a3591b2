from __future__ import annotations

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.launch.masters import (
    CONNECT,
    KUBERNETES,
    LOCAL,
    STANDALONE,
    YARN,
    SubmitOptions,
    open_doors,
    parse_master,
)


@pytest.mark.parametrize(
    ("url", "cluster"),
    [
        ("local", LOCAL),
        ("local[4]", LOCAL),
        ("local[*, 4]", LOCAL),
        ("spark://one:7077,two:7077", STANDALONE),
        ("yarn", YARN),
        ("k8s://https://here:6443", KUBERNETES),
        ("sc://here:15002/;user_id=me", CONNECT),
    ],
)
def test_a_master_url_says_which_process_drives_the_stages(url: str, cluster: str) -> None:
    master = parse_master(url)
    assert master.cluster == cluster
    assert [master.is_local, master.is_submitted, master.is_connect].count(True) == 1


@pytest.mark.parametrize(
    "url", ["", "lokal[*]", "local[x]", "spark://", "mesos://here:5050", "yarn-client", "http://here"]
)
def test_a_master_that_spark_does_not_know_is_rejected(url: str) -> None:
    with pytest.raises(ConfigError, match="is not a master URL that Spark knows") as caught:
        parse_master(url)
    assert "spark://host:7077" in caught.value.hint


def test_no_text_of_a_master_holds_its_token() -> None:
    master = parse_master("sc://here/;token=hidden;use_ssl=true")
    assert master.shown == "sc://here/;use_ssl=true"
    assert "hidden" not in repr(master)
    with pytest.raises(ConfigError) as caught:
        parse_master("sx://here/;token=hidden")
    assert "hidden" not in str(caught.value) + repr(caught.value.facts)


def test_a_deploy_mode_that_spark_does_not_know_is_rejected() -> None:
    with pytest.raises(ConfigError, match="'clutser' is not a deploy mode of Spark") as caught:
        SubmitOptions("clutser")
    assert "Did you mean 'cluster'?" in caught.value.hint


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
