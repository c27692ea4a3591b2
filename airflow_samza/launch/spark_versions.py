"""Versions of Spark that have to be one: pyspark, pyspark-client, SPARK_HOME, and the server of Spark Connect.

The distributions pyspark and pyspark-client install into one folder, where the one that comes last overwrites files of
the other; no requirement of a package can say that two others have the same version. So it is looked up, without
loading pyspark, before a runner is started and by the runner.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from airflow_samza.errors import RuntimeMissing

PYSPARK = "pyspark"
CLIENT = "pyspark-client"
PAIRS = {(4, 0): "4.0.4", (4, 1): "4.1.3", (4, 2): "4.2.0"}
"""The feature releases of Spark that the package is tested with, and of each the newest version that both have."""

WITHOUT_CLIENT = {(4, 3): "4.3.0"}
"""Feature releases that the package is tested with, whose pyspark-client is not published: for an environment of its
own, where no Airflow requires one."""


def check_installed(home: str = "") -> None:
    """Reject pyspark beside another version of pyspark-client, and a SPARK_HOME with another Spark than pyspark's.

    What is not installed is not compared. ``home`` is the SPARK_HOME, where it counts.
    """
    spark, client = installed_version(PYSPARK), installed_version(CLIENT)
    if spark is not None and client is not None and spark != client:
        raise RuntimeMissing(
            f"pyspark is of version {spark} here, and pyspark-client, which installs into its folder, of {client}.",
            hint=f"Install both in one version: {_install(_feature(min(spark, client, key=_feature)))}.",
            pyspark=spark,
            client=client,
        )
    core = jar_version(home, "spark-core") if home else None
    if spark is not None and core is not None and spark != core:
        raise RuntimeMissing(
            f"SPARK_HOME is {home}, which has Spark {core}, and pyspark is of version {spark} here.",
            hint="Unset SPARK_HOME, so that pyspark starts the Spark that it brings"
            + (f"; or install the other one: {_install(_feature(core))}." if _feature(core) in PAIRS else "."),
            pyspark=spark,
            spark=core,
            spark_home=home,
        )


def pyspark_home() -> str:
    """Return the folder of the installed pyspark, which is found and not loaded; "" where there is none."""
    spec = find_spec(PYSPARK)
    return str(next(iter(spec.submodule_search_locations or ()), "")) if spec is not None else ""


def check_server(place: str, server: str, client: str) -> None:
    """Reject a Spark Connect server of another feature release than the client; ``place`` names it."""
    if _feature(server) == _feature(client):
        return
    other = f"Use a server of Spark {'.'.join(map(str, _feature(client)))}"
    raise RuntimeMissing(
        f"{place} runs Spark {server}, and pyspark is of version {client} here.",
        hint=f"{other}, or install its version: {_install(_feature(server))}."
        if _feature(server) in PAIRS
        else f"{other}.",
        version=server,
        pyspark=client,
    )


def installed_version(name: str) -> str | None:
    """Return the version of an installed distribution, which is looked up and not loaded; None where there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def jar_version(home: str, artifact: str) -> str | None:
    """Return the version of a jar of the Spark in a folder, whatever its Scala; None when there is none."""
    form = re.compile(rf"{artifact}(?:_[\d.]+)?-(\d[^/]*)\.jar")
    matches = (form.fullmatch(path.name) for path in sorted(Path(home, "jars").glob(f"{artifact}*.jar")))
    return next((match[1] for match in matches if match is not None), None)


def _install(feature: tuple[int, int]) -> str:
    release = PAIRS.get(feature, PAIRS[max(PAIRS)])
    return f"pip install pyspark=={release} pyspark-client=={release}"


def _feature(text: str) -> tuple[int, int]:
    """Return the feature release of a version: (4, 2) of ``4.2.0``."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
