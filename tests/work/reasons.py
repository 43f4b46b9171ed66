"""Why a row that recorded a PyTorch call has unknown amounts."""

from __future__ import annotations

import json
from collections.abc import Mapping

import polars as pl

from timeroof.core.profile import RECORDED_CALL
from timeroof.work.counting import count, kernel_cost
from timeroof.work.names import name_facts_table
from timeroof.work.recorded import COUNTED_KINDS, KINETO_ARGUMENTS, call_from_kineto, with_format


def why_unknown(row: Mapping[str, object]) -> str | None:
    """The reason, from the labels that show the call; None: its amounts are known."""
    if row["kind"] not in COUNTED_KINDS:
        return None if row.get("byte/dram") is not None else f"{row['kind']}: bytes not recorded"
    if float(str(row.get("label.op_calls") or 1.0)) == 0:
        return "another kernel stands for its op: what this one does is not recorded"
    texts = [row.get(f"label.{name}") for name in RECORDED_CALL]
    keys = zip(KINETO_ARGUMENTS, texts, strict=True)
    call = call_from_kineto(str(row["op"] or ""), {k: json.loads(str(t)) for k, t in keys if t})
    storage = name_facts_table(pl.Series("name", [row["name"]]))["storage"][0]
    cost = count(call)
    if cost.unknown and storage:
        cost = count(with_format(call, storage))
    return kernel_cost(call.op, cost).unknown
