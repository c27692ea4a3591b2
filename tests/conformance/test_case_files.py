"""Anything that is not recognised in a folder of cases fails: nothing is skipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.case_files import ConformanceCase, find_cases
from tests.conformance.test_conformance import test_case as run_case


def written(folder: Path, content: object) -> list[ConformanceCase]:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "some.json").write_text(text, encoding="utf-8")
    return find_cases(folder)


def graph(*operators: dict[str, object]) -> dict[str, object]:
    return {"inputs": [{"id": "a", "partitions": 2}], "outputs": [], "operators": list(operators)}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        [],
        {},
        {"conventions": {}},
        {"unknown": [{"name": "x"}]},
        {"planner": []},
        {"planner": [{"no": "name"}]},
        {"planner": [{"name": "x"}]},
        {"planner": [{"name": "x", "graph": graph(), "expect": {}}]},
        {"planner": [{"name": "x", "graph": graph(), "expect": {"stages": []}}]},
        {"planner": [{"name": "x", "graph": graph(), "expect": {"partitions": {}}, "more": 1}]},
        {
            "planner": [
                {"name": "x", "graph": graph({"id": "z", "op": "zip", "inputs": ["a"]}), "expect": {"partitions": {}}}
            ]
        },
        {
            "planner": [
                {"name": "x", "graph": graph({"id": "m", "op": "map", "inputs": ["b"]}), "expect": {"partitions": {}}}
            ]
        },
        {"planner": [{"name": "x", "graph": graph(), "expect": {"reject": "unreachable"}}]},
        {"planner": [{"name": "x", "graph": graph(), "expect": {"partitions": {"p": 1}}}]},
        {"end_of_stream": [{"name": "x", "task_ssps": [], "steps": [{"message": {}, "expect": {"emit": []}}]}]},
        {"watermark": [{"name": "x"}]},
        {"sequences": [{"name": "x"}]},
        {
            "sequences": [
                {
                    "name": "x",
                    "chooser": {"kind": "psychic"},
                    "envelopes": {},
                    "register": [],
                    "steps": [["choose", None]],
                }
            ]
        },
        {
            "sequences": [
                {"name": "x", "chooser": {"kind": "round_robin"}, "envelopes": {}, "register": [], "steps": []}
            ]
        },
        {
            "sequences": [
                {
                    "name": "x",
                    "chooser": {"kind": "round_robin"},
                    "envelopes": {},
                    "register": [],
                    "steps": [["wait", 1]],
                }
            ]
        },
        {"config": [{"name": "x", "config": {}, "expect": {}}]},
        {"config": [{"name": "x", "config": {"task.inputs": "k.a"}, "expect": {"priority": {"k.a": 1}}}]},
        {"starting_offsets": [{"name": "x"}]},
        {"starting_offsets": [{"name": "x", "file_offset": "1", "oldest": "0", "expect": "1"}]},
        {"catch_up": [{"name": "x", "partitions": {}, "processed": [], "expect_caught_up_after": 1}]},
        {"processing": [{"name": "x", "entries": [["k", 1]], "expect": {}}]},
        {"processing": [{"name": "x", "processor": "k -> k - 1", "expect": {"final": {"k": 0}}}]},
    ],
)
def test_what_is_not_understood_or_not_met_fails(tmp_path: Path, content: object) -> None:
    cases = written(tmp_path, content)
    assert cases
    for case in cases:
        with pytest.raises((pytest.fail.Exception, AssertionError)):
            run_case(case)


def test_a_file_is_recognised_by_what_it_holds_not_by_its_name(tmp_path: Path) -> None:
    (case,) = written(
        tmp_path, {"planner": [{"name": "x", "graph": graph(), "expect": {"partitions": {}, "groups": {}}}]}
    )
    assert (case.kind, case.id) == ("planner", "some:planner:x")
    run_case(case)


@pytest.mark.parametrize(("emitted", "passes"), [(7, True), (6, False)])
def test_a_checkpoint_of_watermarks_is_restored_and_compared(emitted: int, passes: bool) -> None:
    said = {"stream": "I", "partition": 0, "task_count": 2}
    case = {
        "name": "x",
        "type": "watermark",
        "ssps": [["I", 0]],
        "before": [{**said, "task": "a", "timestamp": 7}],
        "checkpoint": {"stream": "I", "partition": 0, "total_tasks": 2, "tasks_to_event_time": {"a": 7}},
        "after_restore": [{**said, "task": "b", "timestamp": 9}],
        "expect_emit": [{"type": "watermark", "stream": "I", "partition": 0, "timestamp": emitted}],
    }
    if passes:
        run_case(ConformanceCase("x", "checkpoint", case))
    else:
        with pytest.raises(AssertionError):
            run_case(ConformanceCase("x", "checkpoint", case))


def test_an_empty_or_missing_folder_fails(tmp_path: Path) -> None:
    assert [bool(case.problem) for case in (*find_cases(tmp_path), *find_cases(tmp_path / "nowhere"))] == [True, True]
