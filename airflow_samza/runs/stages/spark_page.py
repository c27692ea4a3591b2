"""The page of a runner's Spark on record, so that whoever looks at a task can go there.

The runner notes it; links on tasks and the page in Airflow lead there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from airflow_samza.records import durable
from airflow_samza.runs.records.folders import read_report, replace
from airflow_samza.runs.stages.stage_runners import RunnerFolder
from airflow_samza.secrecy import without_passwords
from airflow_samza.systems.filesystems.filesystem import Filesystem

LONGEST = 500
"""Characters of an address; a longer one is none."""

HISTORY_SERVER = "spark.yarn.historyServer.address"
"""Spark's own setting for where event logs are shown; Spark reads it on YARN only, and it counts here everywhere."""

# The settings that :func:`spark_page` looks at.
PAGE_SETTINGS = _, _PROXY, _PROXY_URL, _EVENT_LOG = (
    HISTORY_SERVER,
    "spark.ui.reverseProxy",
    "spark.ui.reverseProxyUrl",
    "spark.eventLog.enabled",
)


@durable("page of a runner's Spark", reports=True)
@dataclass(frozen=True)
class SparkPage:
    """The page of the Spark of a stage runner: its application's id, its address, and that of its history.

    ``address`` answers while the driver lives; ``history`` afterwards, where event logs are kept and a history server
    is named. Either is empty where there is none.
    """

    application: str = ""
    address: str = ""
    history: str = ""

    def link(self, *, is_over: bool = False) -> str:
        """Return where to look: at the driver's own page while it lives, else at the history, if there is one."""
        return (self.history or self.address) if is_over else (self.address or self.history)


def spark_page(application: str, address: str | None, conf: Mapping[str, str]) -> SparkPage:
    """Return the page of an application of Spark, as the driver's address and settings have it.

    >>> conf = {"spark.eventLog.enabled": "true", "spark.yarn.historyServer.address": "history:18080"}
    >>> spark_page("app-1", "http://10.0.0.7:4040", conf).link(is_over=True)
    'http://history:18080/history/app-1'
    """
    proxy = conf.get(_PROXY_URL, "") if conf.get(_PROXY, "").lower() == "true" else ""
    if address and proxy.startswith("http"):
        address = f"{proxy.rstrip('/')}/proxy/{quote(application)}"
    server = conf.get(HISTORY_SERVER, "").rstrip("/")
    has_history = bool(server) and conf.get(_EVENT_LOG, "").lower() == "true"
    server = server if "://" in server else f"http://{server}"
    return SparkPage(
        application[:LONGEST],
        _checked(address or ""),
        _checked(f"{server}/history/{quote(application)}" if has_history else ""),
    )


def note_spark_page(files: Filesystem, runner: RunnerFolder, page: SparkPage) -> None:
    """Write the record of a runner's Spark."""
    replace(files, runner.spark, page)


def read_spark_page(files: Filesystem, runner: RunnerFolder) -> SparkPage | None:
    """Return the page of a runner's Spark; None while it is not up."""
    return read_report(files, runner.spark, SparkPage)


def _checked(address: str) -> str:
    """Return an address that a browser may be sent to, else nothing."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname or len(address) > LONGEST:
        return ""
    return address if without_passwords(address) == address else ""
