"""A live run for the tests of views: timed slower than it runs, and small enough for caches."""

from __future__ import annotations

import polars as pl

from tests.conftest import make_machine
from timeroof.api.reports import analyze
from timeroof.core.machine import Ceiling
from timeroof.core.profile import Profile, Source, Steps
from timeroof.core.report import Report

PROFILER_S = 2.0
BUSY_S, PYTHON_S = 10.0, 2.0


def live_report(clean_s: float = 6.0, *, dram: float = 0.0, **more: float) -> Report:
    """Twelve timed seconds (ops and Python) and two of the profiler, by default twice too long.

    Ops move `dram` bytes at DRAM each; `more` are further amounts of the longest.
    """
    rows = [
        {"name": "convolution", "time_s": 6.0, "flop/fp32": 200.0, "byte/l2": 40.0, **more},
        {"name": "norm", "time_s": 2.5, "flop/fp32": 10.0, "byte/l2": 30.0},
        {"name": "reorder", "time_s": 1.4, "flop/fp32": 0.0, "byte/l2": 20.0},
        {"name": "view", "time_s": 0.1, "flop/fp32": 0.0, "byte/l2": 0.0},
    ]
    table = pl.DataFrame(
        [dict.fromkeys(more, 0.0) | row | {"byte/dram": dram, "phase": "forward"} for row in rows],
        infer_schema_length=None,
    )
    profile = Profile.of(
        table,
        Source(tool="timeroof run", command="timeroof run train.py"),
        wall_s=BUSY_S + PYTHON_S + PROFILER_S,
        kernel_s=BUSY_S,
        idle_by_cause={"python": PYTHON_S, "profiler": PROFILER_S},
        steps=Steps(count=20, clean_s=clean_s, timed_s=14.0),
        notes=("residual: 6.00 s ± 0.10 s",),
    )
    integers = Ceiling(resource="flop/int8", rate=400.0, origin="measured")
    machine = make_machine(launching="synchronous")
    return analyze(profile, make_machine(
        launching="synchronous", ceilings=[*machine.ceilings, integers]
    ))  # fmt: skip
