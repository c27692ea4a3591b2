"""Names by which brokers know the own topics of runs."""

from __future__ import annotations

import hashlib
import re

BEGINNING = "samza."
"""Beginning of all these names, for the rights of a user."""

_LONGEST = 249
_DIGEST = 16


def broker_topic(root: str, name: str) -> str:
    """Return the name of a topic of a run at the brokers: what it is of, and a digest that no other topic has.

    ``root`` is the identity of the root: several roots may have runs of one name, and the same brokers.

    >>> broker_topic("4f", "views-1-by-member/run 1/1.1")
    'samza.views-1-by-member.run_1.1.1.c9a53b0f3d82d6d8'
    """
    digest = hashlib.sha256(f"{root}\0{name}".encode()).hexdigest()[:_DIGEST]
    shown = re.sub(r"[^A-Za-z0-9._-]", "_", BEGINNING + ".".join(name.split("/")))
    return f"{shown[: _LONGEST - _DIGEST - 1]}.{digest}"
