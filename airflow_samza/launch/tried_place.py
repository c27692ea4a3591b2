"""The test of a place where stages run, for a connection's form: it is reached, and its runner can start."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.launch.cluster_doors import open_doors
from airflow_samza.launch.launcher import check_place
from airflow_samza.launch.masters import SubmitOptions, parse_master
from airflow_samza.launch.runner_python import check_pythons, checked_path


def try_place(
    url: str, submit: SubmitOptions, conf: Mapping[str, str], runner_python: str, cluster: Mapping[str, str]
) -> str:
    """Return the sentence about a place that can be used; what is in the way is a SamzaError.

    ``conf`` are the settings of all stages, ``cluster`` those of them that the Spark connection has.
    """
    master = parse_master(url)
    runner = check_pythons(checked_path(runner_python), master, submit, conf)
    check_place(master, submit, runner_python)
    where = master.shown if runner is None else f"{master.shown}, by {runner.shown} at {runner.python}"
    warning = open_doors(master, cluster)
    unless = f" Unless the cluster's own settings say otherwise, {warning}" if warning is not None else ""
    return f"stages run on {where}.{unless}"
