"""A segment in which bits are other ones gives its rows or a sentence that names it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from airflow_samza.errors import SamzaError
from tests.support.runs_here import Here

SCHEMA = pa.schema([("member", pa.int64()), ("page", pa.string())])


def test_one_bit_of_a_segment_gives_its_rows_or_a_sentence(tmp_path: Path) -> None:
    rows = [{"member": n, "page": f"p{n}"} for n in range(20)]
    Here(tmp_path).log.append("clicks", pa.Table.from_pylist(rows, SCHEMA), key=["member"], partitions=2)
    (segment,) = tmp_path.rglob("segments/*")
    whole = segment.read_bytes()

    def found() -> list[dict[str, object]]:
        return sorted(Here(tmp_path).rows("clicks"), key=lambda row: row["member"])

    sound = found()
    assert [row["member"] for row in sound] == [*range(20)]
    sentences = []
    for bit in range(0, len(whole) * 8, 101):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << (bit % 8)
        segment.write_bytes(changed)
        try:
            assert found() == sound
        except SamzaError as error:
            sentences.append(error.sentence)
    assert len(sentences) > 50
    assert all("clicks" in sentence for sentence in sentences)
