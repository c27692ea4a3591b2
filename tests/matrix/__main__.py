"""Builds and tries the combinations: ``python -m tests.matrix [--folder F] [--only TEXT] [--suite NAME …] [--jobs N]``.

``--spark 4.3.0`` (or ``--airflow``, ``--python``) tries a release that no combination has yet, instead of them.

In each environment the installed wheel is checked first; ``--suite wheel`` does no more than that, and ``--product``
does it for each Airflow with each Spark on each Python. What each suite says goes into a file of the environment's
folder; a table of all goes to the terminal. Ends with 1 when anything failed. Environments are deleted when they have
been tried (``--keep`` leaves them, for the next time).
"""

from __future__ import annotations

import argparse
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.matrix.combinations import COMBINATIONS, SUITES, Combination, Suite, whole_product, with_releases
from tests.matrix.environments import ROOT, Environment, build_wheel, run, uv
from tests.matrix.trials import FAILED, tried_command

WHEEL = "wheel"

JOBS = 2
"""Environments at a time: most suites wait for servers for half of their time."""

_stopped = threading.Event()


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Tries the package with the versions that it supports.")
    parser.add_argument("--folder", type=Path, default=ROOT / ".matrix", help="where environments and logs go")
    parser.add_argument("--only", default="", help="the combinations whose names have this text")
    for part in ("airflow", "spark", "python"):
        parser.add_argument(
            f"--{part}", default="", help=f"try this {part} with the newest of the others, nothing else"
        )
    parser.add_argument(
        "--suite", action="append", choices=[WHEEL, *(suite.name for suite in SUITES)], help="only this one"
    )
    parser.add_argument("--product", action="store_true", help="each Airflow with each Spark on each Python")
    parser.add_argument("--wheel", type=Path, help="the wheel to try; otherwise one is built of this tree")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"environments at a time (default: {JOBS})")
    parser.add_argument("--keep", action="store_true", help="leave environments, and take those that are there")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    chosen = [one for one in (whole_product() if arguments.product else COMBINATIONS) if arguments.only in one.name]
    releases = (arguments.airflow, arguments.spark, arguments.python)
    if any(releases):
        chosen = [with_releases(*releases)]
    suites = [suite for suite in SUITES if not arguments.suite or suite.name in arguments.suite]
    wheel = arguments.wheel.resolve(strict=True) if arguments.wheel else build_wheel(folder / "dist")
    begin = time.monotonic()
    with ThreadPoolExecutor(max_workers=max(1, arguments.jobs)) as jobs:
        try:
            rows = list(
                jobs.map(lambda one: tried(Environment(one, folder), wheel, suites, keep=arguments.keep), chosen)
            )
        except KeyboardInterrupt:  # the suites that run have got it, too
            _stopped.set()
            jobs.shutdown(cancel_futures=True)
            raise
    results = dict(zip(chosen, rows, strict=True))
    print(table(results, [WHEEL, *(suite.name for suite in suites)]))
    # pyspark is published as sources: each build leaves 1.4 GB in uv's cache, which nothing uses any more.
    run(uv(), "cache", "prune", "--quiet")
    print(f"{len(results)} environments in {time.monotonic() - begin:.0f} s")
    return 0 if results and not any(text.startswith(FAILED) for row in rows for text in row.values()) else 1


def tried(environment: Environment, wheel: Path, suites: list[Suite], *, keep: bool) -> dict[str, str]:
    """Return the result of each suite in one environment, which is built first."""
    name = environment.combination.name
    try:
        if not (keep and environment.is_built):
            print(f"== {name}: building", flush=True)
            try:
                environment.build(wheel, *(["dev"] if suites else []))
            except (AssertionError, RuntimeError) as error:
                print(f"   {name}: {error}", flush=True)
                return {WHEEL: FAILED}
        # -I: the wheel, and not this tree, which the suites take.
        check = ["-I", str(ROOT / "scripts" / "check_wheel.py"), str(wheel)]
        found = {WHEEL: result(environment, WHEEL, check, environment.folder)}
        if suites:
            environment.make_class_archive()
        for suite in suites:
            if _stopped.is_set():
                break
            found[suite.name] = result(environment, suite.name, environment.arguments(suite), ROOT)
        return found
    finally:
        if not keep:
            shutil.rmtree(environment.folder / "venv", ignore_errors=True)


def result(environment: Environment, name: str, arguments: list[str], place: Path) -> str:
    """Return how a command in an environment ended, with the seconds that it took."""
    log = environment.folder / f"{name.replace(' ', '-')}.log"
    begin = time.monotonic()
    done = tried_command([str(environment.python), *arguments], place, environment.environment(), log)
    text = f"{done} ({time.monotonic() - begin:.0f} s)"
    print(f"   {environment.combination.name}: {name}: {text}{'' if done.succeeded else f'  {log}'}", flush=True)
    return text


def head_of(columns: list[str]) -> str:
    """Return the first line of the table, which the documentation has, too."""
    return f"| Airflow, Spark, Python | {' | '.join(columns)} |"


def table(results: dict[Combination, dict[str, str]], columns: list[str]) -> str:
    """Return the results as a table of Markdown."""
    head = f"{head_of(columns)}\n|---|{'---|' * len(columns)}"
    rows = [
        f"| {one.airflow}, {one.spark}, {one.python} | " + " | ".join(row.get(column, "—") for column in columns) + " |"
        for one, row in results.items()
    ]
    return "\n".join([head, *rows])


if __name__ == "__main__":
    raise SystemExit(main())
