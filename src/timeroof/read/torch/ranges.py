"""Counters per kernel that CUPTI's range profiler wrote into a trace.

Its events replay every kernel several times: their durations are no kernel times, and
are left unknown. Instructions are per thread, so a fused multiply-add counts two.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import polars as pl

_PRECISIONS = {"d": "fp64", "f": "fp32", "h": "fp16"}
_BYTES = {"dram__bytes": "byte/dram", "lts__t_bytes": "byte/l2", "l1tex__t_bytes": "byte/l1"}
_OPS = "sass_thread_inst_executed_op_"


def range_rows(ranges: list[tuple[str, str, dict[str, Any]]]) -> pl.DataFrame:
    """One row per kernel name and device, with its counters as amounts; no time."""
    groups: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for name, device, counters in ranges:
        groups[name, device].append(amounts(counters))
    collected = list(dict.fromkeys(c for found in groups.values() for row in found for c in row))
    rows = []
    for (name, device), found in groups.items():
        row: dict[str, Any] = {"name": name, "device": device, "calls": float(len(found))}
        for column in collected:
            values = [amount.get(column) for amount in found]
            row[column] = None if None in values else sum(v for v in values if v is not None)
        rows.append(row)
    schema = dict.fromkeys(["name", "device"], pl.String) | dict.fromkeys(
        ["calls", *collected], pl.Float64
    )
    table = pl.DataFrame(rows, schema=schema)
    return table.with_columns(
        pl.lit("kernel").alias("kind"),
        pl.lit(None, pl.Float64).alias("time_s"),
        pl.lit("measured").alias("origin.flops"),
    )


def amounts(counters: dict[str, Any]) -> dict[str, float]:
    """FLOPs per precision and bytes per level that counters give; what is missing is left out.

    >>> s = "smsp__sass_thread_inst_executed_op_"
    >>> amounts({s + "fadd_pred_on.sum": 1, s + "fmul_pred_on.sum": 2, s + "ffma_pred_on.sum": 4})
    {'flop/fp32': 11.0}
    """
    values = {k: float(v) for k, v in counters.items() if isinstance(v, int | float) and v >= 0}
    found: dict[str, float] = {}
    for letter, precision in _PRECISIONS.items():
        parts = [
            next((v for k, v in values.items() if f"{_OPS}{letter}{what}_pred_on" in k), None)
            for what in ("add", "mul", "fma")
        ]
        add, mul, fma = parts
        if add is not None and mul is not None and fma is not None:
            found[f"flop/{precision}"] = add + mul + 2 * fma
    for metric, resource in _BYTES.items():
        whole = values.get(f"{metric}.sum")
        parts = [values.get(f"{metric}_{way}.sum") for way in ("read", "write")]
        if whole is not None:
            found[resource] = whole
        elif None not in parts:
            found[resource] = sum(p for p in parts if p is not None)
    return found
