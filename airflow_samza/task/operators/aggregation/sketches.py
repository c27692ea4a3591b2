"""Sketches that count distinct values approximately (HyperLogLog): made, merged and read for many groups at once.

Decision 38 says why they are ours. A sketch is a list of int32: for each of its ``2 ** precision`` registers that some
value has hit, the register's number and the greatest rank seen there, as ``number << 6 | rank``. So a group of few
values is small, and merging is a group-by. Numbers are read by Ertl's estimator ("New cardinality estimation algorithms
for HyperLogLog sketches", 2017, algorithm 6), which needs no tables of corrections.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.windows import DEFAULT_RSD, Aggregation
from airflow_samza.partitioner import value_hashes

_SEEDS = (0x9747B28C, 0x3C6EF372)
"""Others than that of partitions: the values in one partition have alike hashes of that seed."""


def precision_of(aggregation: Aggregation) -> int:
    """The bits of a register's number.

    They are enough for the relative standard deviation asked for, by the same rule as Spark's.

    >>> precision_of(Aggregation("approx_count_distinct", "x"))
    9
    """
    return max(4, math.ceil(2 * math.log2(1.106 / (aggregation.rsd or DEFAULT_RSD))))


def codes(column: pa.Array, precision: int) -> Any:
    """Register and rank of each value (no nulls among them), as a sketch holds them."""
    few = column.dictionary_encode() if len(column) else column
    values = few.dictionary if len(column) else column
    high, low = (value_hashes(values, seed).astype(np.uint64) for seed in _SEEDS)
    hashes = high << np.uint64(32) | low
    register = (hashes >> np.uint64(64 - precision)).astype(np.int32)
    rest = hashes << np.uint64(precision) | np.uint64(1 << (precision - 1))  # a bit behind the last one ends the count
    numbers = register << 6 | (65 - _bit_lengths(rest)).astype(np.int32)
    return numbers.take(few.indices.to_numpy()) if len(column) else numbers


def _bit_lengths(numbers: Any) -> Any:
    upper, lower = (numbers >> np.uint64(32)).astype(np.float64), (numbers & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(upper > 0, np.frexp(upper)[1] + 32, np.frexp(lower)[1])


def estimates(sketches: pa.Array, precision: int) -> pa.Array:
    """The number of distinct values of each sketch, as int64."""
    registers = float(1 << precision)
    hit = pc.fill_null(pc.list_value_length(sketches), 0).to_numpy(zero_copy_only=False)
    ranks = sketches.flatten().to_numpy() & 63
    owner = np.repeat(np.arange(len(sketches)), hit)
    sums = np.bincount(owner, weights=np.exp2(-ranks.astype(np.float64)), minlength=len(sketches))
    with np.errstate(divide="ignore"):
        counts = registers**2 / (2 * math.log(2)) / (sums + registers * _sigma(1 - hit / registers))
    return pa.array(np.rint(counts).astype(np.int64))


def _sigma(share: Any) -> Any:
    """Return what the registers that no value has hit add; infinite when that is all of them."""
    total, power, weight = share.copy(), share.copy(), 1.0
    with np.errstate(under="ignore"):
        for _ in range(64):
            power = power * power
            more = total + power * weight
            if (more == total).all():
                break
            total, weight = more, weight * 2
    return np.where(share >= 1, np.inf, total)
