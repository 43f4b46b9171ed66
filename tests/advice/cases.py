"""Small runs on a machine whose numbers can be done in the head."""

from __future__ import annotations

from typing import Any

from tests.conftest import make_machine
from timeroof.advice import advise
from timeroof.api.reports import analyze
from timeroof.core.machine import Ceiling, Machine
from timeroof.core.profile import Profile, Source
from timeroof.core.report import Finding, Report

# A kernel at its memory roof: nothing to say about it, whatever its share.
FINE = {"name": "fine", "op": "aten::layer_norm", "flop/fp32": 1.0}


def report_of(
    rows: list[dict[str, Any]], machine: Machine | None = None, *, tool: str = "test", **whole: Any
) -> Report:
    """Rows judged on the toy machine: 100 FLOP/s, 10 B/s, 0.1 s per launch."""
    profile = Profile.of(rows, Source(tool=tool), **whole)
    return analyze(profile, machine if machine is not None else make_machine())


def found(code: str, report: Report) -> list[Finding]:
    """Findings of one code among all."""
    return [finding for finding in advise(report) if finding.code == code]


def only(code: str, report: Report) -> Finding:
    """The one finding of a code."""
    findings = found(code, report)
    assert len(findings) == 1, [f.code for f in advise(report)]
    return findings[0]


def own_gain_s(finding: Finding) -> float:
    """What a finding's cure gives back by itself, whatever others claim."""
    own_s = finding.evidence["own_gain_s"]
    assert isinstance(own_s, float)
    return own_s


def fine(time_s: float, **more: Any) -> dict[str, Any]:
    """A row at 95 % of the memory's roof for some seconds."""
    return {**FINE, "time_s": time_s, "byte/dram": 9.5 * time_s, "launches": 1.0, **more}


def machine_with(*extra: Ceiling, **changes: object) -> Machine:
    """The toy machine with more ceilings."""
    return make_machine(ceilings=[*make_machine().ceilings, *extra], **changes)


def ceiling(resource: str, rate: float) -> Ceiling:
    return Ceiling(resource=resource, rate=rate, origin="measured")
