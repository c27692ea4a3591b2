"""Titles of stages: names that say what a stage does, for people (decision 96).

A stage's id says what starts it (rule P7). Topics, records, carried state and Airflow's task instances are kept under
it, so it never follows what the stage does; a title does, and nothing is kept under a title. Used wherever people read
of a stage: in Airflow, on the page, in the command line and in logs.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import UnknownName
from airflow_samza.planner.plan import ExecutionPlan, PlannedOperator, Stage
from airflow_samza.planner.wording import stage_operators

LONGEST = 40
"""Characters of a title: what a task of Airflow's graph shows."""

_KEPT_BY = frozenset({"aggregate", "window", "join", "task"})
"""Kinds of operators that keep something from message to message: what a stage with one is for."""

_CALLING = frozenset({"map", "flat_map", "map_async", "map_batches", "transform", "sink"})
"""Kinds of operators that make something else of messages, by a callable."""

_SINKS = {"partition_by": "partition", "broadcast": "broadcast", "send_to": "write", "send_to_table": "fill"}
"""Kinds of operators at the end of a stage, and the words for what they do."""

_FUNCTION = re.compile(r"=(\w+)\(")


def stage_titles(plan: ExecutionPlan) -> dict[str, str]:
    """Return the title of every stage by its id: unique, the same from run to run, at most 40 characters.

    It follows from the stage's own operators, and from the ids that the user has given them: those that aggregate, join
    or keep state, else other named ones with a callable, else where the messages go. A stage whose title another one
    has, too, or that is another one's id, goes by its id.
    """
    titles = {stage.stage_id: _shortened(_phrases(stage_operators(plan, stage))) for stage in plan.stages}
    times = Counter(titles.values())
    return {
        stage_id: stage_id if not title or times[title] > 1 or title in titles else title
        for stage_id, title in titles.items()
    }


def stage_names(plan: ExecutionPlan) -> dict[str, str]:
    """Return by its id how texts name every stage: ``by-country (count-per-country)``, without a title by its id."""
    return {
        stage_id: f"{stage_id} ({title})" if title != stage_id else stage_id
        for stage_id, title in stage_titles(plan).items()
    }


def stage_named(plan: ExecutionPlan, name: str) -> Stage:
    """Return the stage of an id or a title; an id counts before a title. Another name is an ``UnknownName``."""
    titles = stage_titles(plan)
    stage_id = name if name in titles else next((one for one, title in titles.items() if title == name), None)
    if stage_id is None:
        names = [*titles, *(title for one, title in titles.items() if title != one)]
        hint = f"{did_you_mean(name, names)}Its stages are: {', '.join(names)}."
        raise UnknownName(f"The plan has no stage {name!r}.", hint=hint, name=name)
    return plan.stage(stage_id)


def _phrases(operators: Sequence[PlannedOperator]) -> list[str]:
    keeping = [_of_keeping(operator) for operator in operators if operator.op in _KEPT_BY]
    named = [operator.name for operator in operators if operator.op in _CALLING and not operator.name.isdigit()]
    return keeping or named or [_of_sink(operator) for operator in operators if operator.op in _SINKS]


def _of_keeping(operator: PlannedOperator) -> str:
    """``count-per-country`` of an aggregation with the id ``per-country`` that counts, ``join-orders`` of a join."""
    details = dict(operator.details)
    functions = set(_FUNCTION.findall(details.get("aggregations", "")))
    verb = (
        functions.pop()
        if len(functions) == 1
        else "join"
        if operator.op == "join"
        else "aggregate"
        if functions
        else ""
    )
    return _with(verb, operator.name)


def _of_sink(sink: PlannedOperator) -> str:
    """``partition-by-country``, ``write-totals``."""
    names_itself = sink.op in ("partition_by", "broadcast")
    return _with(_SINKS[sink.op], sink.name if names_itself else str(sink.table or sink.stream))


def _with(verb: str, name: str) -> str:
    """Return a verb and a name, unless the name has the verb.

    >>> _with("count", "per-country"), _with("count", "count-of-members"), _with("", "score")
    ('count-per-country', 'count-of-members', 'score')
    """
    return f"{verb}-{name}" if verb and verb not in re.split(r"[-_]", name) else name


def _shortened(phrases: Sequence[str]) -> str:
    """Return phrases as one name of at most 40 characters: all of them, else the last and how many more there are.

    >>> _shortened(["join-with-maker", "count-per-hour"])
    'join-with-maker-and-count-per-hour'
    >>> _shortened(["join-with-maker", "count-per-hour", "count-per-carrier-and-hour"])
    'count-per-carrier-and-hour-and-2-more'
    """
    safe = [re.sub(r"[^A-Za-z0-9_-]", "-", phrase) for phrase in phrases]
    whole = "-and-".join(safe)
    if len(whole) <= LONGEST:
        return whole
    last = f"{safe[-1]}-and-{len(safe) - 1}-more" if len(safe) > 1 else safe[-1]
    if len(last) <= LONGEST:
        return last
    digest = hashlib.sha256(whole.encode()).hexdigest()[:4]
    return f"{last[: LONGEST - 5].rstrip('-')}-{digest}"
