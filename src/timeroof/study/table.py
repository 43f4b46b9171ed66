"""Results as a profile: one row of kind `unit` per case, the case in its labels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from timeroof.api.live import scope_for
from timeroof.core.errors import UsageError
from timeroof.core.files import write_atomically
from timeroof.core.machine import Machine
from timeroof.core.profile import LABEL, ORIGIN, Profile, Source
from timeroof.model.stats import spread
from timeroof.study.case import Case, Result
from timeroof.study.grid import all_cores
from timeroof.study.kernel import CALIBRATE, FORWARD, OPTIMIZER
from timeroof.study.kernels import kernels
from timeroof.study.store import Kept, median_s

_PHASES = {CALIBRATE: "data", FORWARD: "forward", OPTIMIZER: "optimizer"}


def profile_of(
    results: Sequence[Result], *, version: str | None = None, command: str | None = None,
    notes: tuple[str, ...] = (),
) -> Profile:  # fmt: skip
    """The cases that were measured; failed and unsupported ones have no row.

    Times, launches and amounts are those of one execution.
    """
    done = [r for r in results if r.status == "done" and r.samples_s]
    rows = [_row(r) for r in done]
    source = Source(tool="timeroof study", version=version, command=command)
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


def _row(result: Result) -> dict[str, Any]:
    case = result.case
    # The kernel's name is in `op`: some kernels have a parameter that is called kernel.
    labels = {
        "framework": case.framework,
        "precision": case.precision,
        "pass": case.pass_name,
        "cache": case.cache,
        "threads": str(case.threads),
        "variant": case.variant,
        "device": case.device,
        **{name: str(value) for name, value in case.params.items()},
    }
    labels = result.labels | labels
    if result.load is not None:
        labels["load"] = f"{result.load:.3f}"
    return {
        "kind": "unit",
        "name": case_name(case),
        "op": case.kernel,
        "phase": phase_of(case.pass_name),
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


def phase_of(pass_name: str) -> str:
    """The phase (`core.resources.PHASES`) that a pass is.

    >>> phase_of("backward-input"), phase_of("calibrate")
    ('backward', 'data')
    """
    return _PHASES.get(pass_name, "backward")


def case_name(case: Case) -> str:
    """What a case is called: what differs from the base case, and what is special of how it ran.

    >>> from timeroof.study.grid import one_case
    >>> case_name(one_case("conv2d", params={"batch": 32}))
    'conv2d forward fp32 batch=32'
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


# A study's cases as one flat table: Parquet or CSV by suffix.


SUFFIXES = (".parquet", ".csv")
_JSON = ("params", "samples_s", "amounts", "origins", "labels")
# A cell that begins so is a formula to a spreadsheet.
_FORMULA = r"^([=+\-@\t\r])"


def check_export(path: Path) -> Path:
    """Refuse a name that asks for no known format, before any work is done."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{str(path)!r} is no export's name", advice="end it in .parquet or .csv")
    return path


def cases_table(kept: Sequence[Kept], machine: Machine | None = None) -> pl.DataFrame:
    """One row per case, failed ones too: parameters, amounts, origins and labels as columns."""
    lines = [_line(k, machine) for k in kept]
    if not lines:
        return pl.DataFrame(schema={"case_key": pl.String, "status": pl.String})
    return pl.DataFrame(lines, infer_schema_length=None)


def _line(kept: Kept, machine: Machine | None) -> dict[str, Any]:
    result = kept.result
    row = {k: v for k, v in kept.row().items() if k not in _JSON}
    row |= {f"param.{k}": str(v) for k, v in result.case.params.items()}
    row |= result.amounts
    row |= {f"origin.{k}": v for k, v in result.origins.items()}
    row |= {f"label.{k}": v for k, v in result.labels.items()}
    row["label.scope"] = scope_for(1, machine) if result.case.threads == 1 else "all"
    return row | {"samples_s": result.samples_s}


def export(kept: Sequence[Kept], path: Path, machine: Machine | None = None) -> None:
    """Write the table, whole or not at all; `machine` says whose ceilings judge one thread."""
    table = cases_table(kept, machine)
    data = io.BytesIO()
    if check_export(path).suffix == ".parquet":
        table.write_parquet(data)
    else:
        _flat(table).write_csv(data)
    write_atomically(path, data.getvalue())


def _flat(table: pl.DataFrame) -> pl.DataFrame:
    """CSV has no lists: samples as JSON text; texts that a spreadsheet would run are quoted."""
    texts = [c for c, kind in table.schema.items() if kind == pl.String]
    table = table.with_columns(pl.col(c).str.replace(_FORMULA, "'$1") for c in texts)
    if "samples_s" not in table.columns:
        return table
    samples = [msgspec.json.encode(s).decode() for s in table["samples_s"].to_list()]
    return table.with_columns(pl.Series("samples_s", samples))
