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


@pytest.mark.parametrize(
    ("gains_s", "words"),
    [
        ([0.5, 0.4, 0.3], "chunks\n"),
        ([0.9, 0.4, 0.2], "chunks\n"),
        ([1.0, 0.4, 0.3], "chunks (they overlap)\n"),
    ],
)
def test_chunks_that_exceed_the_step_say_why(
    gains_s: list[float], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_run(run(2.0, 1.5, gains_s, 0.25))
    assert words in capsys.readouterr().err


def test_chunks_are_the_largest_of_findings_and_of_gaps_that_none_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_run(run(2.0, 1.5, [0.1, 0.05, 0.01], 0.25))
    named = capsys.readouterr().err.split("chunks")[1]
    assert named.index("finding 0.1") < named.index("finding 0.05") < named.index("finding 0.01")
    report = run(2.0, 1.5, [0.1, 0.05, 0.01], 0.25)
    nameless = tuple(structs.replace(f, kernels=[]) for f in report.findings)
    print_run(replace(report, findings=nameless))
    told = capsys.readouterr().err.split("chunks")[1]
    assert told.index("above its bound") < told.index("finding 0.1")
    assert "finding 0.01" not in told
