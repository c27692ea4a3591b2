"""Places outside of the records where a system shows how far runs have read, such as consumer groups of Kafka."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.capabilities import TellsWhatIsRead
from airflow_samza.systems.system import System


def with_reading_notes(
    notes: Mapping[str, Mapping[str, str]], run: RunPlan, systems: Mapping[str, System]
) -> dict[str, dict[str, str]]:
    """Return the notes of a plan, by stage and stream, with these places; one that may not be written is rejected."""
    found = {stage: dict(texts) for stage, texts in notes.items()}
    for stage in run.plan.stages:
        for stream_id in stage.inputs:
            bound = run.stream(stream_id)
            system = systems[bound.system]
            if run.is_own(stream_id) or not isinstance(system, TellsWhatIsRead):
                continue
            texts = found.setdefault(stage.stage_id, {})
            told = "; ".join(text for text in (texts.get(stream_id), system.describe_reading(bound.spec)) if text)
            if told:
                texts[stream_id] = told
    return found
