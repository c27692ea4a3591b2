"""The shuffles of a DataFrame, each with the operator of an application that would do its work through a topic.

The command ``plan`` lists them for somebody who comes from Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.spark.physical_plan import PlanNode, exchange_keys, explained, parse_plan
from airflow_samza.spark.sessions.session_start import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBERS = re.compile(r"#\d+L?|, ENSURE_REQUIREMENTS|, \[plan_id=\d+\]|, REPARTITION_BY_\w+")


def shuffles(frame: DataFrame) -> list[str]:
    """Return a sentence for each exchange in the plan of a DataFrame, from the source to the end.

    What an aggregation or a join does over the rows of a key, an application does behind a ``partition_by`` of that
    key.
    """
    try:
        plan = parse_plan(explained(frame))
    except ValueError:  # an explanation of another form: better silent than wrong
        return []
    sentences = []
    for root in (plan.root, *plan.subqueries):
        sentences += [_sentence(node, above) for node, above in _exchanges(root, None)]
    return sentences[::-1]


def planned_shuffles(spec: ApplicationSpec, conf: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the shuffles of each ``from_dataframe`` function of an application, by stream.

    Spark plans them here, and runs nothing.
    """
    readers = {stream.stream_id: stream.reader for stream in spec.inputs.values() if stream.reader is not None}
    if not readers:
        return {}
    sentences = {}
    with start_session("airflow_samza explain", conf.get("spark.master", "local[1]"), conf) as spark:
        for stream_id, reader in readers.items():
            try:
                sentences[stream_id] = shuffles(reader(spark))
            except Exception as error:
                line = next(iter(str(error).splitlines()), "")
                sentences[stream_id] = [
                    f"its shuffles are not known: here the function fails with {type(error).__name__}: {line[:200]}"
                ]
    return sentences


def _exchanges(node: PlanNode, above: PlanNode | None) -> list[tuple[PlanNode, PlanNode | None]]:
    """Return the exchanges of a plan, from its end on, each with the operator that asked for it."""
    is_exchange = node.name.split(" ")[0] in ("Exchange", "ShuffleExchange")
    exchanges = [(node, above)] if is_exchange else []
    mine = above if node.name.split(" ")[0] in ("Sort", "AQEShuffleRead", "InputAdapter", "WholeStageCodegen") else node
    for child in node.children:
        exchanges += _exchanges(child, mine)
    return exchanges


def _sentence(exchange: PlanNode, above: PlanNode | None) -> str:
    text = _NUMBERS.sub("", exchange.arguments).strip()
    for_whom = f" for its {above.name.split(' ')[0]}" if above is not None else ""
    keys = exchange_keys(exchange.arguments)
    if keys and "hashpartitioning" in exchange.arguments:
        columns = ", ".join(f'"{key}"' for key in keys)
        key = columns if len(keys) == 1 else f"[{columns}]"
        follows = _follows(above)
        return (
            f"it shuffles{for_whom} ({text}); .partition_by({key}, id=…){follows} would do that through a topic, "
            "as a stage of its own"
        )
    return f"it shuffles{for_whom} ({text or exchange.name}); no partition_by replaces that"


def _follows(above: PlanNode | None) -> str:
    if above is not None and "Aggregate" in above.name:
        return " and .aggregate(…)"
    if above is not None and "Join" in above.name:
        return " on both sides and .join(…)"
    return ""
