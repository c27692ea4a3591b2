"""Kinds of tables, for tests of rules that hold for each of them."""

from __future__ import annotations

from tests.support import delta_outputs, iceberg_outputs

Output = iceberg_outputs.Output | delta_outputs.Output

KINDS: dict[str, type[Output]] = {"iceberg": iceberg_outputs.Output, "delta": delta_outputs.Output}
