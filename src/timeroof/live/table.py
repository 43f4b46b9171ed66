"""The kernels' table of a profile, and the timeline of one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from timeroof.core.profile import TIMELINE_COLUMNS
from timeroof.core.resources import DRAM
from timeroof.core.vocabulary import IdleCause
from timeroof.live.accounting import Account
from timeroof.live.amounts import Amounts
from timeroof.live.rows import Rows, Timed
from timeroof.live.torch.exclusive import GAP
from timeroof.model.stats import spread

MOST_SEGMENTS = 100_000


def kernel_table(
    rows: Rows,
    timed: Timed,
    totals: Sequence[Amounts],
    described: tuple[list[float], list[float]],
    chosen: Sequence[int],
) -> pl.DataFrame:
    """One line per row that ran in the timed steps."""
    seconds = timed.seconds[list(chosen)].mean(axis=0)
    calls = timed.calls[list(chosen)].mean(axis=0)
    names = _amount_names(totals)
    lines = [
        _line(row, rows, timed, seconds[row], calls[row], described)
        | _amounts(_at(totals, row), names, calls[row], described[1][row : row + 1])
        for row in np.flatnonzero(calls > 0).tolist()
    ]
    numbers = dict.fromkeys((*names, "calls", "launches", "time_s", "time_spread"), pl.Float64)
    return pl.DataFrame(lines, schema_overrides=numbers, infer_schema_length=None)


def _at(totals: Sequence[Amounts], row: int) -> Amounts | None:
    return totals[row] if row < len(totals) and totals[row] else None


def _amount_names(totals: Sequence[Amounts]) -> list[str]:
    found = sorted({n for total in totals for n in total if n != "user"})
    return found or ["flop/fp32", DRAM]


def _line(
    row: int, rows: Rows, timed: Timed, time_s: float, calls: float,
    described: tuple[list[float], list[float]],
) -> dict[str, Any]:  # fmt: skip
    name, shape, dtype, module, phase, thread, source = rows.keys[row]
    samples = timed.seconds[:, row].tolist()
    launches, seen = (d[row] if row < len(d) else 0.0 for d in described)
    return {
        "id": row,
        "kind": "kernel" if row in rows.fused else "op",
        "name": name,
        "op": rows.fused.get(row, name),
        "shape": shape,
        "dtype": dtype,
        "module": module,
        "phase": phase,
        "stream": f"thread {thread}",
        "device": "cpu",
        "calls": calls,
        "launches": launches * calls / seen if seen else (calls if row in rows.stated else 0.0),
        "time_s": time_s,
        "time_spread": spread(samples),
        "samples": samples,
        "origin.time": "measured",
    } | ({"label.source": source} if rows.with_lines else {})


def _amounts(
    total: Amounts | None, names: Sequence[str], calls: float, seen: Sequence[float]
) -> dict[str, Any]:
    """A row's amounts, scaled where the timed steps called it more or less often."""
    if total is None:
        return dict.fromkeys(names)
    stated = "user" in total
    scale = calls if stated else calls / seen[0] if seen and seen[0] else 1.0
    found: dict[str, Any] = {}
    for name in names:
        value = total.get(name, 0.0)
        found[name] = None if value is None else value * scale
    flops, moved = ("user", "user") if stated else ("counted", "modelled")
    return found | {"origin.flops": flops, f"origin.bytes/{DRAM.split('/')[1]}": moved}


def timeline(account: Account, row_of_event: Any) -> pl.DataFrame:
    """The segments of one step in order; gaps bear their cause."""
    cut = account.cut
    event = np.where(cut.owner == GAP, 0, cut.owner)
    empty = not len(row_of_event)
    row = np.full(len(cut.owner), -1) if empty else row_of_event[account.owner[event]]
    row = np.where(cut.owner == GAP, -1, row)
    thread = np.full(len(event), account.step.main_thread)
    if not empty:
        thread = np.where(cut.owner == GAP, account.step.main_thread, account.step.thread[event])
    table = pl.DataFrame(
        {
            "start_s": (cut.start_ns - account.step.begin_ns) / 1e9,
            "duration_s": (cut.end_ns - cut.start_ns) / 1e9,
            "stream": [f"thread {t}" for t in thread.tolist()],
            "kernel": [None if r < 0 else r for r in row.tolist()],
            "idle_cause": [
                None
                if r >= 0
                else IdleCause.PYTHON.value
                if o == GAP
                else account.cause_of(o).value
                for r, o in zip(row.tolist(), cut.owner.tolist(), strict=True)
            ],
        },
        schema=TIMELINE_COLUMNS,
    )
    return table.head(MOST_SEGMENTS)
