"""A finished case as a row of the store's table `cases`, and back."""

from __future__ import annotations

import statistics
from typing import Any

import msgspec

from timeroof.model.stats import spread
from timeroof.study.case import Case, Result

CREATE = """
CREATE TABLE IF NOT EXISTS cases (
    case_key TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed', 'unsupported')),
    error TEXT,
    kernel TEXT NOT NULL,
    params TEXT NOT NULL,
    pass TEXT NOT NULL,
    precision TEXT NOT NULL,
    framework TEXT NOT NULL,
    device TEXT NOT NULL,
    threads INTEGER NOT NULL,
    cache TEXT NOT NULL,
    variant TEXT NOT NULL,
    time_s REAL,
    time_spread REAL,
    samples_s TEXT NOT NULL,
    launches REAL,
    amounts TEXT NOT NULL,
    contraction_flops REAL,
    origins TEXT NOT NULL,
    labels TEXT NOT NULL,
    load REAL,
    limiter TEXT,
    bound_s REAL,
    efficiency REAL,
    above_roof TEXT,
    machine TEXT NOT NULL,
    software TEXT NOT NULL,
    created TEXT NOT NULL
)
"""
COLUMNS = (
    "case_key", "status", "error", "kernel", "params", "pass", "precision", "framework", "device",
    "threads", "cache", "variant", "time_s", "time_spread", "samples_s", "launches", "amounts",
    "contraction_flops", "origins", "labels", "load", "limiter", "bound_s", "efficiency",
    "above_roof", "machine", "software", "created",
)  # fmt: skip
INSERT = (
    f"INSERT OR REPLACE INTO cases ({', '.join(COLUMNS)})"
    f" VALUES ({', '.join(f':{c}' for c in COLUMNS)})"
)


class Verdict(msgspec.Struct, kw_only=True, frozen=True):
    """What the model says of one case on the machine that it ran on."""

    limiter: str | None = None
    bound_s: float | None = None
    efficiency: float | None = None
    above_roof: str | None = None


class Kept(msgspec.Struct, kw_only=True, frozen=True):
    """A result with its place in the store."""

    case_key: str
    result: Result
    verdict: Verdict = Verdict()
    machine: str = ""
    software: str = ""


def row_of(kept: Kept) -> dict[str, Any]:
    """The columns of a case."""
    result, case = kept.result, kept.result.case
    return {
        "case_key": kept.case_key,
        "status": result.status,
        "error": result.error,
        "kernel": case.kernel,
        "params": _text(case.params),
        "pass": case.pass_name,
        "precision": case.precision,
        "framework": case.framework,
        "device": case.device,
        "threads": case.threads,
        "cache": case.cache,
        "variant": case.variant,
        "time_s": median_s(result.samples_s),
        "time_spread": spread(result.samples_s),
        "samples_s": _text(result.samples_s),
        "launches": result.launches,
        "amounts": _text(result.amounts),
        "contraction_flops": result.contraction_flops,
        "origins": _text(result.origins),
        "labels": _text(result.labels),
        "load": result.load,
        **msgspec.structs.asdict(kept.verdict),
        "machine": kept.machine,
        "software": kept.software,
        "created": result.created,
    }


def kept_of(row: dict[str, Any]) -> Kept:
    """A row as it was kept."""
    case = Case(
        kernel=row["kernel"],
        params=msgspec.json.decode(row["params"], type=dict[str, int | str]),
        pass_name=row["pass"],
        **{k: row[k] for k in ("precision", "framework", "device", "threads", "cache", "variant")},
    )
    result = Result(
        case=case,
        samples_s=msgspec.json.decode(row["samples_s"], type=list[float]),
        amounts=msgspec.json.decode(row["amounts"], type=dict[str, float | None]),
        origins=msgspec.json.decode(row["origins"], type=dict[str, str]),
        labels=msgspec.json.decode(row["labels"], type=dict[str, str]),
        **{
            k: row[k]
            for k in ("status", "error", "launches", "contraction_flops", "load", "created")
        },
    )
    verdict = Verdict(**{k: row[k] for k in ("limiter", "bound_s", "efficiency", "above_roof")})
    return Kept(
        case_key=row["case_key"],
        result=result,
        verdict=verdict,
        machine=row["machine"],
        software=row["software"],
    )


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def median_s(samples: list[float]) -> float | None:
    """The median of a case's samples, None where there are none."""
    return statistics.median(samples) if samples else None
