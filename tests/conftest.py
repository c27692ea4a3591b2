"""What holds for all tests."""

from __future__ import annotations

import logging

# py4j tells of every connection that closes, also when the interpreter ends and pytest's streams are gone.
logging.getLogger("py4j").setLevel(logging.WARNING)
