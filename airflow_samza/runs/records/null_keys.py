"""The warning that all messages of a stage have a null key at a ``partition_by`` or a join.

Tasks count, the finish of a stage warns, and progress repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.titles import stage_names
from airflow_samza.planner.wording import operator_title
from airflow_samza.runs.records.totals import KEYED, WITHOUT_KEY

SIDES = ("", ".left", ".right")
"""The ends of the names of counters: of an operator with one input, and of each side of a join of streams."""


def key_warnings(plan: ExecutionPlan, stage_id: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each keyed input of a stage's operators at which every message lacked its key.

    ``facts`` are the counts of its tasks, added up.
    """
    warnings = []
    for operator in map(plan.operator, plan.stage(stage_id).operators):
        for side in SIDES:
            messages = facts.get(f"{KEYED}{operator.op_id}{side}", 0)
            if messages and messages == facts.get(f"{WITHOUT_KEY}{operator.op_id}{side}"):
                all_of = f"All {messages:,} messages" if messages > 1 else "The only message"
                warnings.append(
                    f"{all_of} {f'of the {side[1:]} side ' if side else ''}at {operator_title(operator)} of the stage "
                    f"{stage_names(plan)[stage_id]} had null in the key ({dict(operator.details).get('key', '')}): a "
                    "field may have another name in the data than in the schema, which reads it as null. Compare both; "
                    "or, if keys may be null, leave such messages out before."
                )
    return tuple(warnings)
