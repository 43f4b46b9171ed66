"""The summary's words: what is counted as recoverable, and of which step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from tests.conftest import make_machine
from timeroof.api.reports import analyze
from timeroof.core.profile import Profile, Source, Steps
from timeroof.core.report import Finding, Ladder, Report
from timeroof.views.run_summary import print_run


def run(wall_s: float, clean_s: float, gains_s: list[float], fused_s: float | None) -> Report:
    rows = [{"name": "k", "time_s": 1.0, "flop/fp32": 50.0, "byte/dram": 1.0}]
    profile = Profile.of(
        rows,
        Source(tool="test"),
        wall_s=clean_s,
        kernel_s=1.0,
        steps=Steps(count=9, unprofiled_s=clean_s, profiled_s=wall_s),
    )
    report = analyze(profile, make_machine())
    totals = report.totals
    ladder = Ladder(measured_s=clean_s, roof_s=0.5, fused_s=fused_s, ideal_s=None)
    findings = tuple(
        Finding(code="TR101", title=f"finding {g}", kernels=[0], gain_s=g, why="", action="")
        for g in gains_s
    )
    return replace(report, totals=structs.replace(totals, ladder=ladder), findings=findings)


def test_what_to_do_first_is_the_findings_with_the_largest_gains(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_run(run(2.0, 1.5, [0.4, 0.3, 0.2, 0.1], 0.25))
    first = capsys.readouterr().err.split("Do first")[1]
    assert first.index("finding 0.4") < first.index("finding 0.3") < first.index("finding 0.2")
    assert "finding 0.1" not in first
