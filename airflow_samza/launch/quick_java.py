"""Options with which a Java that Spark starts on this host is up sooner, on less processor time.

Java compiles in tiers: first quickly, and what has run often again, slowly and well. By its own thresholds two fifths
of a start go into the second compiler, for code that then runs no more. Here a method has to run ten times as often
first: loops over rows come to that within a second, the start does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow_samza.launch.class_archive import user_options

LATE_SECOND_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)
"""Ten times Java's own thresholds."""

LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the Java that only writes Spark's command line; it lives for a third of a second."""

_OWN_WORD = re.compile(r"Tier|CompileThreshold|-Xint|-Xcomp")


@contextmanager
def quick_start(conf: Mapping[str, str]) -> Iterator[None]:
    """Give a Java that Spark starts meanwhile these options, unless the user's own speak of compilation."""
    before = {name: os.environ.get(name) for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")}
    if not any(_OWN_WORD.search(text) for text in user_options(conf, os.environ)):
        os.environ["SPARK_SUBMIT_OPTS"] = f"{LATE_SECOND_COMPILER} {before['SPARK_SUBMIT_OPTS'] or ''}".strip()
    if before["SPARK_LAUNCHER_OPTS"] is None:
        os.environ["SPARK_LAUNCHER_OPTS"] = LAUNCHER
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
