"""Sums of what a stage has read and written: counts are added, samples kept, of gauges each task's last value."""

from __future__ import annotations

from airflow_samza.runs.records.totals import GAUGES, SAMPLES, Totals, counters, gauges, summed


def counts(messages: int, control: int = 0) -> dict[str, int]:
    return {"messages": messages, "control": control, "bytes": 10 * messages}


def test_counts_of_several_tasks_and_epochs_are_added_by_stream() -> None:
    first = Totals(1.0).plus([({"in": counts(3)}, {"out": counts(2)}, {}, 0.5), ({"in": counts(4)}, {}, {}, 0.25)])
    both = first.plus_epoch(7.0).plus([({"in": counts(1, 1), "side": counts(5)}, {"out": counts(1)}, {}, 1.0)])
    assert both == Totals(1.0, 1, {"in": counts(8, 1), "side": counts(5)}, {"out": counts(3)}, {}, 1.75, 7.0)
    assert (both.messages, both.sent, summed(both.read, "control"), first.messages) == (13, 3, 1, 7)


def test_numbers_are_summed_and_other_facts_are_those_of_the_last_task() -> None:
    facts = Totals(0.0).plus([({}, {}, {"late": 1, "cpu": 0.1, "mode": "a", "full": True}, 0.0)])
    facts = facts.plus([({}, {}, {"late": 2, "cpu": 0.2, "mode": "b", "full": False}, 0.0)])
    assert facts.facts == {"late": 3, "cpu": 0.3, "mode": "b", "full": False}


def test_counters_are_the_numbers_among_the_facts() -> None:
    facts = {"late": 3, "cpu": 0.5, "mode": "b", "full": True, "samples": ["x"], GAUGES: {"lag": {"0": 1.0}}}
    assert counters(facts) == {"late": 3, "cpu": 0.5}


def test_a_number_takes_the_place_of_what_is_none() -> None:
    facts = Totals(0.0, facts={"late": "many"}).plus([({}, {}, {"late": 2}, 0.0)])
    assert facts.facts == {"late": 2}


def test_of_samples_the_first_few_are_kept() -> None:
    totals = Totals(0.0)
    for start in (0, 8, 16):
        totals = totals.plus([({}, {}, {"samples": [*range(start, start + 8)]}, 0.0)])
    assert totals.facts["samples"] == [*range(SAMPLES)]


def test_of_a_gauge_the_greatest_of_the_tasks_last_values_is_shown() -> None:
    totals = Totals(0.0).plus([({}, {}, {GAUGES: {"lag": {"0": 9.0, "1": 2.0}, "open": {"0": 1.0}}}, 0.0)])
    totals = totals.plus([({}, {}, {GAUGES: {"lag": {"0": 1.0}, "unset": {}}}, 0.0)])
    assert totals.facts[GAUGES] == {"lag": {"0": 1.0, "1": 2.0}, "open": {"0": 1.0}, "unset": {}}
    assert gauges(totals.facts) == {"lag": 2.0, "open": 1.0}
