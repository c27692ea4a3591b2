"""Rows about files: inputs that are missing, damaged or of another schema, and outputs that cannot be written."""

from __future__ import annotations

import errno
import gzip
import os
from typing import Any

import fastavro
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from airflow_samza.runs.records.data_interval import DataInterval
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.scene import OUT, VIEWS, Scene, raised
from tests.support.slotted import Slotted, day

PLAN = "by `plan`"
STAGE = "by the stage"


def parquet(scene: Scene, name: str, **columns: Any) -> None:
    file = scene.folder / "data" / "views" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file)


@row("files", "A missing input path", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    return scene.plan()


@row("files", "A missing root", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="lake", schema=View, path="*.parquet").send_to({OUT})')
    scene.systems["lake"] = f"files:{scene.folder / 'lost'}"
    return scene.plan()


@row("files", "Files of several formats", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views()
    scene.write("data/views/2.csv", "member_id,country,dwell_ms")
    return scene.plan()


@row("files", "A corrupt Parquet file", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.write("data/views/1.parquet", "PAR1 but no more than that")
    return scene.plan()


@row("files", "A compressed file without the ending of its compression", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.write("data/views/1.csv").write_bytes(gzip.compress(b"member_id,country,dwell_ms\n"))
    return scene.prepare()


@row("files", "A text file that is not UTF-8", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.write("data/views/1.csv").write_bytes("member_id,country,dwell_ms\n".encode("utf-16"))
    return scene.prepare()


@row("files", "A damaged Avro file", STAGE)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    path, mark = scene.write("data/views/1.avro"), b"0123456789abcdef"
    with open(path, "wb") as file:
        fields = [{"name": "member_id", "type": "long"}, {"name": "country", "type": "string"}]
        record = {"type": "record", "name": "view", "fields": [*fields, {"name": "dwell_ms", "type": "long"}]}
        rows = [{"member_id": number, "country": "NL", "dwell_ms": 1500} for number in range(10)]
        fastavro.writer(file, record, rows, codec="null", sync_marker=mark)
    data = path.read_bytes()
    place = data.index(mark) + len(mark)
    path.write_bytes(data[:place] + b"\x04" + data[place + 1 :])  # 2 records instead of 10
    return scene.run()


@row("files", "A Parquet file with a text that is too large", STAGE)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    parquet(scene, "1.parquet", member_id=[7], country=["x" * (65 << 20)], dwell_ms=[1500])
    return scene.run()


@row("files", "A column of a type that no stream has", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    parquet(scene, "1.parquet", member_id=pa.array([7], pa.duration("us")), country=["NL"], dwell_ms=[1500])
    return scene.prepare()


@row("files", "A codec that a format does not have", PLAN)
def _(scene: Scene) -> str:
    options = 'format="avro", options={"compression": "snapy"}'
    scene.application(f'{VIEWS}.send_to(app.output_stream("out", system="lake", {options}))')
    scene.views()
    return scene.prepare()


@row("files", "A link that leads nowhere", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views()
    os.symlink(scene.folder / "data/gone.jsonl", scene.folder / "data/views/2.jsonl")
    return scene.plan()


@row("files", "Options of CSV that share a character", PLAN)
def _(scene: Scene) -> str:
    options = 'options={"null_value": "\\\\N", "escape": "\\\\"}'
    scene.application(f'app.input_stream("views", system="lake", schema=View, path="views", {options}).send_to({OUT})')
    scene.write("data/views/1.csv", "member_id,country,dwell_ms")
    return scene.prepare()


@row("files", "A file without a column that is declared", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    parquet(scene, "1.parquet", member_id=[7], county=["NL"], dwell_ms=[1500])
    return scene.prepare()


@row("files", "A file with another type than is declared", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    parquet(scene, "1.parquet", member_id=["7"], country=["NL"], dwell_ms=[1500])
    return scene.prepare()


@row("files", "A field that no line of JSON has", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views(*['{"member_id": 7, "county": "NL", "dwell_ms": 1500}'] * 3)
    return scene.prepare()


@row("files", "A later file with another schema than the first", STAGE)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="lake").send_to({OUT})')
    parquet(scene, "1.parquet", member_id=[7])
    parquet(scene, "2.parquet", member_id=["seven"])
    return scene.run()


@row("files", "A line that is no JSON", STAGE)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views('{"member_id": 7, "country": "NL", "dwell_ms": 1500}', '{"member_id": 8, "country": ')
    return scene.run()


@row("files", "A line of JSON that is null", STAGE)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views("null")
    return scene.run()


@row("files", "A JSON value of another type than is declared", STAGE)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views(
        '{"member_id": 7, "country": "NL", "dwell_ms": 1500}', '{"member_id": 8, "country": "NL", "dwell_ms": "long"}'
    )
    return scene.run()


@row("files", "A null in a column that is declared not null", STAGE)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    parquet(scene, "1.parquet", member_id=[7, 8], country=["NL", None], dwell_ms=[1500, 20])
    return scene.run()


@row("files", "A CSV value of another type than is declared", STAGE)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.write("data/views/1.csv", "member_id,country,dwell_ms", "7,NL,1500", "8,NL,long")
    return scene.run()


@row("files", "A CSV value in quotes that are never closed", STAGE)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.write("data/views/1.csv", "member_id,country,dwell_ms", '7,"NL,1500')
    return scene.run()


@row("files", "A file that changed between plan and stage", STAGE)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views()
    more = '{"member_id": 8, "country": "NL", "dwell_ms": 20}'
    return scene.run(before={"views": lambda: scene.views(more, more)})


@row("files", "A file that is written again while it is read", STAGE)
def _(scene: Scene) -> str:
    scene.application(
        "def write_again(view):",
        "    import os",
        f"    os.utime({str(scene.folder / 'data/views/1.jsonl')!r}, (1, 1))",
        "    return True",
        f"{VIEWS}.filter(write_again).send_to({OUT})",
    )
    scene.views()
    return scene.run()


@row("files", "An output where a file is in the way", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views()
    scene.write("data/out", "in the way")
    return scene.prepare()


class _RejectingFilesystem(LocalFileSystem):  # type: ignore[misc]
    """A storage that answers every write with the operating system's error of one number."""

    number = errno.EROFS

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        if "r" not in mode:
            raise OSError(self.number, os.strerror(self.number), path)
        return super()._open(path, mode, **more)


class ReadOnly(_RejectingFilesystem):
    protocol = "frozen"


class Full(_RejectingFilesystem):
    protocol = "brimful"
    number = errno.ENOSPC


def _output_on(scene: Scene, kind: type[_RejectingFilesystem]) -> str:
    fsspec.register_implementation(kind.protocol, kind, clobber=True)
    scene.application(f'{VIEWS}.send_to(app.output_stream("out", system="other"))')
    scene.views()
    scene.systems["other"] = f"files:{kind.protocol}://{scene.folder}/other"
    return scene.prepare()


@row("files", "An output on storage that is read-only", PLAN)
def _(scene: Scene) -> str:
    return _output_on(scene, ReadOnly)


@row("files", "An output on storage that is full", PLAN)
def _(scene: Scene) -> str:
    return _output_on(scene, Full)


@row("files", "An output format that does not exist", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.send_to(app.output_stream("out", system="lake", format="parket"))')
    scene.views()
    return scene.prepare()


def _written(scene: Scene, first: int, days: int = 1, application: str = "page-views") -> None:
    """Write days of January 2013 to the output, as a run of an application."""
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views()
    slot = day(first, days, application=application)
    Slotted("files", str(scene.folder / "data")).publish("monday", [1], slot)


@row("files", "An interval that another application has written to the output", PLAN)
def _(scene: Scene) -> str:
    _written(scene, 1, application="other-views")
    return scene.prepare(interval=DataInterval.from_iso("2013-01-01", "2013-01-02"))


@row("files", "An interval that overlaps one that was written to the output", PLAN)
def _(scene: Scene) -> str:
    _written(scene, 1, 2)
    return scene.prepare(interval=DataInterval.from_iso("2013-01-01", "2013-01-02"))


@row("files", "A run of the name of one under another root that has written the output", PLAN)
def _(scene: Scene) -> str:
    _written(scene, 9, application="page-views")
    output = Slotted("files", str(scene.folder / "data"))
    output.publish("page-views/run-1", [1], None, stage="views", root="0123456789abcdef")
    return scene.prepare()


@row("files", "A run whose output another run of its interval has replaced", STAGE)
def _(scene: Scene) -> str:
    output = Slotted("files", str(scene.folder / "data"))
    output.publish("scheduled", [1], day(1), epoch=0, final=False)
    output.publish("by-hand", [2], day(1))
    return raised(lambda: output.publish("scheduled", [3], day(1), epoch=1))


@row("files", "An unknown mode of an output", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.send_to(app.output_stream("out", system="lake", mode="apend"))')
    scene.views()
    return scene.prepare()
