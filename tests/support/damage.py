"""Damage to a file, seeded: what a full disk, an editor, a half-made copy or somebody hostile leaves."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.support.budgets import seconds

WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**70,
    1.5,
    1e308,
    "x",
    "",
    "../../x",
    "\x00",
    [],
    {},
    [[]],
    [None],
    {"x": None},
    "9" * 5000,
)
"""Values that stand where others should."""

SECONDS = seconds("FUZZ_SECONDS", 8)
"""Seconds for which each fuzzer of this folder tries; a nightly gives more."""


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return the bytes of a file with one damage: of its JSON where it is JSON, else of its bytes."""
    if rng.random() < 0.75:
        try:
            record = json.loads(data)
        except ValueError:
            pass
        else:
            return json.dumps(_mutated(record, rng)).encode()
    return _torn(data, rng)


def _mutated(record: Any, rng: random.Random) -> Any:
    places = list(_places(record))
    if not places:
        return rng.choice(WRONG)
    holder, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.35:
        del holder[key]
    elif kind < 0.9:
        holder[key] = rng.choice(WRONG)
    else:
        other, name = rng.choice(places)
        holder[key] = json.loads(json.dumps(other[name])) if other is not holder else rng.choice(WRONG)
    return record


def _places(found: Any) -> list[tuple[Any, Any]]:
    if isinstance(found, dict):
        return [place for key, value in found.items() for place in ((found, key), *_places(value))]
    if isinstance(found, list):
        return [place for key, value in enumerate(found) for place in ((found, key), *_places(value))]
    return []


def _torn(data: bytes, rng: random.Random) -> bytes:
    kind = rng.randrange(7)
    if kind == 0:
        return b""
    if kind == 1:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 2:
        return rng.choice([b"null", b"[]", b"{}", b"7", b'"x"', b"\xff\xfe\x00", b"[" * 50_000, b'{"a":' * 50_000])
    if kind == 3:
        return data + data
    if kind == 4:
        return bytes(len(data))
    torn = bytearray(data)
    for _ in range(1 + len(torn) // 200):
        if torn:
            torn[rng.randrange(len(torn))] = rng.randrange(256)
    return bytes(torn)
