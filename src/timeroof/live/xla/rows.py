"""Rows of compiled kernels in the program's own words."""

from __future__ import annotations

import polars as pl

from timeroof.core.columns import DataType
from timeroof.live.recording import Recording
from timeroof.live.rows import Rows
from timeroof.live.xla.steps import Kernel
from timeroof.live.xla.work import Executed
from timeroof.work.hlo.opcodes import COLLECTIVES, CONTAINERS, FUSIONS


def in_words(table: pl.DataFrame, recording: Recording, rows: Rows) -> pl.DataFrame:
    """The table with each row's kind, its ops as the program calls them, and its device."""
    told: dict[int, dict[str, object]] = {}
    for row, op in zip(rows.of_described, recording.described, strict=True):
        if row >= 0 and row not in told and isinstance(op, Executed) and op.kernel_of is not None:
            told[row] = {
                "id": row, "kind": _kind(op.kernel_of), "op": op.op or op.name,
                "stream": f"device {op.kernel_of.device}",
            }  # fmt: skip
    if not told:
        return table
    schema: dict[str, DataType] = {
        "id": table.schema["id"],
        "kind": pl.String,
        "op": pl.String,
        "stream": pl.String,
    }
    words = pl.DataFrame(list(told.values()), schema=schema)
    joined = table.join(words, on="id", how="left", suffix=".new", maintain_order="left")
    replaced = [pl.coalesce(f"{name}.new", name).alias(name) for name in ("kind", "op", "stream")]
    return joined.with_columns(replaced).drop("kind.new", "op.new", "stream.new")


def _kind(kernel: Kernel) -> str:
    if kernel.linked is None:
        return "op"
    opcode = kernel.linked.instruction.opcode
    if opcode in COLLECTIVES:
        return "collective"
    return "kernel" if opcode in (*FUSIONS, *CONTAINERS) else "op"
