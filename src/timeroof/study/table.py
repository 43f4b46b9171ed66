"""Results as a profile: one row of kind `unit` per case, the case in its labels."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from timeroof.api.live import scope_for
from timeroof.core.machine import Machine
from timeroof.core.profile import LABEL, ORIGIN, Profile, Source
from timeroof.model.stats import spread
from timeroof.study.case import Case, Result
from timeroof.study.grid import all_cores
from timeroof.study.kernel import CALIBRATE, FORWARD, OPTIMIZER
from timeroof.study.kernels import kernels
from timeroof.study.store import median_s

_PHASES = {CALIBRATE: "data", FORWARD: "forward", OPTIMIZER: "optimizer"}


def profile_of(
    results: Sequence[Result], machine: Machine | None = None, *, command: str | None = None,
    notes: tuple[str, ...] = (),
) -> Profile:  # fmt: skip
    """The cases that were measured; failed and unsupported ones have no row.

    Times, launches and amounts are those of one execution.
    """
    done = [r for r in results if r.status == "done" and r.samples_s]
    rows = [_row(r, machine) for r in done]
    source = Source(tool="timeroof study", command=command)
    if not rows:
        empty = pl.DataFrame(schema={"name": pl.String, "time_s": pl.Float64})
        return Profile.of(empty, source, notes=notes)
    flops = {name for row in rows for name in row if name.startswith("flop/")}
    for row in rows:
        # A case that counts FLOPs has none of the precisions that it does not name.
        none = 0.0 if row["flop/fp32"] is not None else None
        row.update(dict.fromkeys(flops - set(row), none))
    numbers = {n: pl.Float64 for row in rows for n in row if n.split("/")[0] in ("flop", "byte")}
    table = pl.DataFrame(rows, infer_schema_length=None, schema_overrides=numbers)
    return Profile.of(table, source, notes=notes)


def _row(result: Result, machine: Machine | None) -> dict[str, object]:
    case = result.case
    # The kernel's name is in `op`: some kernels have a parameter that is called kernel.
    how = ("framework", "precision", "cache", "threads", "variant", "device")
    labels = result.labels | {name: str(getattr(case, name)) for name in how}
    labels |= {name: str(value) for name, value in case.params.items()}
    labels["pass"] = case.pass_name
    labels["scope"] = scope_for(1, machine) if case.threads == 1 else "all"
    if result.load is not None:
        labels["load"] = f"{result.load:.3f}"
    return {
        "kind": "unit",
        "name": case_name(case),
        "op": case.kernel,
        "phase": _PHASES.get(case.pass_name, "backward"),
        "shape": " ".join(f"{k}={v}" for k, v in case.params.items()),
        "dtype": case.precision,
        "device": case.device,
        "calls": 1.0,
        "launches": result.launches,
        "time_s": median_s(result.samples_s),
        "time_spread": spread(result.samples_s),
        "samples": result.samples_s,
        "contraction_flops": result.contraction_flops,
        **{"flop/fp32": None, **result.amounts},
        **{f"{ORIGIN}{what}": origin for what, origin in result.origins.items()},
        **{f"{LABEL}{name}": value for name, value in labels.items()},
    }


def case_name(case: Case) -> str:
    """What a case is called: what differs from the base case, and what is special of how it ran.

    >>> case_name(Case(kernel="gemm", params={"m": 8}, pass_name="forward", threads=all_cores()))
    'gemm forward fp32 m=8'
    """
    found = kernels().get(case.kernel)
    base = found.base if found is not None else {}
    words = [case.kernel, case.pass_name, case.precision]
    words += [f"{k}={v}" for k, v in case.params.items() if base.get(k) != v]
    if len(words) == 3:
        words.append("base")
    words += [case.variant] if case.variant != "eager" else []
    words += [case.cache] if case.cache != "warm" else []
    if case.threads != all_cores():
        words.append(f"threads={case.threads}")
    return " ".join(words)
