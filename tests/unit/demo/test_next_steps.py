"""The end of the demo: commands that name what is there."""

from __future__ import annotations

from pathlib import Path

from demo import next_steps, show

REPOSITORY = Path(__file__).parents[3]


def test_the_backfill_is_of_an_example_dag(tmp_path: Path) -> None:
    found = next_steps.steps(tmp_path / "in-airflow", "http://page", "flights", "delays.by-tail")
    assert len(found) == 3
    dag = list(found.values())[2][2].split("--dag-id ")[1].split()[0]
    assert (REPOSITORY / "dags" / f"{dag}.py").is_file()


def test_states_have_colours_in_a_terminal_only(capsys, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    show.indented("delays.plan  success  1\ndelays.cleanup  failed")
    assert capsys.readouterr().out == "   delays.plan  success  1\n   delays.cleanup  failed\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    show.indented("delays.plan  success  1\ndelays.cleanup  failed")
    out = capsys.readouterr().out
    assert "\x1b[32msuccess\x1b[0m" in out
    assert "\x1b[1;31mfailed\x1b[0m" in out


def test_a_long_line_stays_one_line(capsys) -> None:  # type: ignore[no-untyped-def]
    show.fact("x" * 400)
    assert capsys.readouterr().out == f"   {'x' * 400}\n"
