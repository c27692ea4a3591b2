"""What holds for all tests."""

from __future__ import annotations

import logging
import os
import sys

# The first test that starts a Java decides for all of them which Python its workers run.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

# py4j tells of every connection that closes, also when the interpreter ends and pytest's streams are gone.
logging.getLogger("py4j").setLevel(logging.WARNING)
