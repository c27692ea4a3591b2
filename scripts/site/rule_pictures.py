"""Pictures of the partition rules, whose keys lie where the partitioner puts them.

``WRITE_PICTURES=1`` of the tests draws them anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import pyarrow as pa

from airflow_samza.partitioner import partition_array
from airflow_samza.schema import parse_type

KEYS = range(1, 9)
ROW, WIDTH, LEFT, RIGHT, TOP = 34, 190, 24, 466, 76
STYLE = (
    "text{font-family:system-ui,-apple-system,'Segoe UI','Helvetica Neue',Helvetica,Arial,sans-serif;font-size:12px;"
    "fill:#0f172a}.title{font-size:15px;font-weight:600}.quiet{fill:#64748b;font-size:11px}.wrong{fill:#b91c1c}"
)

Partitions = Sequence[Sequence[str]]


def partitions(kind: str, count: int) -> Partitions:
    """Return the keys 1 to 8 of a type by the partition in which they lie."""
    lying: list[list[str]] = [[] for _ in range(count)]
    column = pa.array(KEYS).cast(parse_type(kind).to_arrow())
    for key, partition in zip(KEYS, partition_array(pa.record_batch({"key": column}), ["key"], count), strict=True):
        lying[partition].append(f'"{key}"' if kind == "string" else str(key))
    return lying


def met(title: str, left: tuple[str, Partitions], right: tuple[str, Partitions]) -> str:
    """Return two streams that a join reads, and its tasks between them; a key whose partner lies elsewhere is red."""
    rows = max(len(left[1]), len(right[1]))
    return _svg(title, rows, [*_lane(left, right[1], LEFT), *_tasks(left[1], right[1]), *_lane(right, left[1], RIGHT)])


def counted(title: str, known: Sequence[tuple[str, int]], name: str, count: int) -> str:
    """Return streams whose counts are known, each as its partitions, and the one that gets the greatest of them."""
    drawn: list[str] = []
    for number, (stream, partitions_of) in enumerate([*known, (name, count)]):
        y = TOP + number * ROW
        chosen = number == len(known)
        drawn.append(f'<text x="{LEFT}" y="{y + 16}" font-weight="{600 if chosen else 400}">{escape(stream)}</text>')
        drawn.extend(_box(LEFT + 170 + 40 * index, y, 34, str(index), chosen) for index in range(partitions_of))
        drawn.append(f'<text class="quiet" x="{LEFT + 180 + 40 * partitions_of}" y="{y + 16}">{partitions_of}</text>')
    return _svg(title, len(known) + 1, drawn)


def pictures() -> dict[str, str]:
    """Return the pictures of the page about partitions by file name."""
    eight, four = (partitions("bigint", count) for count in (8, 4))
    members = ("members, 4 partitions", four)
    inputs = [("views (input)", 8), ("members (input)", 4)]
    return {
        "rule-one-rejected.svg": met("8 and 4 partitions: rejected", ("views, 8 partitions by member", eight), members),
        "rule-one.svg": met("One count: every key meets its partner", ("by-member, 4 partitions", four), members),
        "rule-two.svg": counted("Nothing decides: the greatest count of inputs and outputs", inputs, "by-tier", 8),
        "rule-three.svg": met(
            "One count, two types of key: rejected",
            ("views by member bigint", four),
            ("members by member string", partitions("string", 4)),
        ),
    }


def _lane(stream: tuple[str, Partitions], other: Partitions, x: int) -> Iterator[str]:
    name, lying = stream
    yield f'<text x="{x}" y="{TOP - 12}" font-weight="600">{escape(name)}</text>'
    for index, keys in enumerate(lying):
        beside = {key.strip('"') for key in other[index]} if index < len(other) else set()
        yield _box(x, TOP + index * ROW, WIDTH, "", False)
        yield f'<text class="quiet" x="{x + 8}" y="{TOP + index * ROW + 16}">{index}</text>'
        shown = "  ".join(
            key if key.strip('"') in beside else f'<tspan class="wrong" font-weight="600">{key}</tspan>' for key in keys
        )
        yield f'<text x="{x + 28}" y="{TOP + index * ROW + 16}" xml:space="preserve">{shown}</text>'


def _tasks(left: Partitions, right: Partitions) -> Iterator[str]:
    for index in range(max(len(left), len(right))):
        middle = TOP + index * ROW + 12
        for there, begin, end in ((index < len(left), LEFT + WIDTH, 300), (index < len(right), 380, RIGHT)):
            if there:
                yield f'<path d="M{begin} {middle}H{end}" stroke="#64748b"/>'
        yield f'<text class="quiet" x="340" y="{middle + 4}" text-anchor="middle">task {index}</text>'


def _box(x: int, y: int, width: int, text: str, chosen: bool) -> str:
    fill, line = ("#dbeafe", "#2563eb") if chosen else ("#f8fafc", "#94a3b8")
    box = f'<rect x="{x}" y="{y}" width="{width}" height="24" rx="4" fill="{fill}" stroke="{line}"/>'
    return f'{box}<text class="quiet" x="{x + width / 2}" y="{y + 16}" text-anchor="middle">{text}</text>'


def _svg(title: str, rows: int, drawn: Sequence[str]) -> str:
    height = TOP + rows * ROW + 12
    size = f'width="680" height="{height}" viewBox="0 0 680 {height}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
            f'<style>{STYLE}</style><rect width="680" height="{height}" rx="10" fill="#ffffff"/>',
            f'<text class="title" x="{LEFT}" y="32">{escape(title)}</text>',
            *drawn,
            "</svg>\n",
        )
    )
